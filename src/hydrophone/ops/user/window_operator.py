"""User-defined window operators: computed afresh, or from the last answer and the samples that came and went."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from hydrophone.errors import DataError, ParameterError
from hydrophone.model.batch import Batch, Mask, Windows
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.state import Field, SlotArrays
from hydrophone.model.time import MIN_TIME
from hydrophone.ops.signals.grids import KeyGrids
from hydrophone.ops.user.calls import call_guarded, frozen_operator, name_of, naming_operator, read_only
from hydrophone.ops.windows.arrays import Magnitude, Phase, Power
from hydrophone.ops.windows.window import Window
from hydrophone.plan.function_identity import operator_identity
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import WindowedType

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class WindowMove:
    """What a window operator sees, a row per window of any key.

    Attributes
    ----------
    all : every sample of the window
    new : the samples that the window before did not have (the last `hop`)
    old : the samples that only the window before had (its first `hop`)
    """

    all: Array
    new: Array
    old: Array


class WindowOperator:
    """Base of user-defined window operators.

    `recompute` gives the answer from all samples. With an `update` the answer follows from the one of the window before and
    the samples that came and went. Every `every` windows (counted on the absolute grid), after a hole, and where the last
    answer is not finite, the engine recomputes: so rounding cannot add up, and every way of running gives the same bits.

    An answer that *slides* is as long as the window, and moves on with it: what it says of samples that stay is what it said of
    them before. With ``slides = True`` an operator that follows sees what came and went in these answers, and can update too.

    Examples
    --------
    >>> class RunningEnergy(WindowOperator):
    ...     def output_size(self, size):
    ...         return 1
    ...     def recompute(self, x):
    ...         return (x.all**2).sum(axis=1, keepdims=True)
    ...     def update(self, x, y):
    ...         return y + (x.new**2).sum(axis=1, keepdims=True) - (x.old**2).sum(axis=1, keepdims=True)
    """

    every: ClassVar[int] = 64
    """Windows from one recomputation to the next."""
    slides: ClassVar[bool] = False
    """Whether the first ``size - hop`` values of an answer are the last ones of the answer before."""

    def output_size(self, size: int) -> int:
        """Values of an answer, for windows of `size` samples."""
        return size

    def recompute(self, x: WindowMove) -> Array:
        """The answers from all samples: an array with a row per window. Only ``x.all`` is there."""
        raise NotImplementedError

    def update(self, x: WindowMove, y: Array) -> Array:
        """The answers from those of the windows before."""
        raise NotImplementedError

    @property
    def incremental(self) -> bool:
        """Whether there is an `update`."""
        return type(self).update is not WindowOperator.update

    @property
    def identity(self) -> str:
        """The code of its methods and its attributes: equal in every process."""
        return operator_identity(self, WindowOperator)


@dataclass(frozen=True, kw_only=True, eq=False)
class Apply(Node):
    """A user-defined window operator; reference: its `recompute` on every window.

    Start and gap: a window whose predecessor is missing is recomputed. End: nothing follows the last window. Windows that
    do not slide (after a taper or a transform) are always recomputed.
    """

    stable_name = "apply"

    operator: WindowOperator
    raw: bool
    """Whether the windows slide: each is the last one moved on."""

    needs = Order.INDEX
    gives = Order.INDEX

    def check(self) -> None:
        """An operator."""
        if not isinstance(self.operator, WindowOperator):
            raise ParameterError(
                f"apply: expected a WindowOperator, got {type(self.operator).__name__}",
                hint="class Mine(hp.WindowOperator) with recompute; a plain function goes into map",
            )
        if self.operator.every < 1:
            raise ParameterError(f"apply: every must be at least 1 window, got {self.operator.every}")

    def output_type(self, x: WindowedType) -> WindowedType:
        """The operator is tried on two windows of ones."""
        ones = np.ones((2, x.length), x.dtype)
        y = call_window_operator(
            self.operator, self.operator.recompute, self._size(x), WindowMove(ones, ones[:, :0], ones[:, :0])
        )
        if self.moves(x):
            moved = WindowMove(ones, ones[:, -x.hop :], ones[:, : x.hop])
            y = y.astype(
                np.result_type(y, call_window_operator(self.operator, self.operator.update, self._size(x), moved, y))
            )
        return replace(x, dtype=y.dtype, length=y.shape[1])

    def _size(self, x: WindowedType) -> int:
        name = f"{type(self.operator).__qualname__}.output_size"
        with naming_operator("apply", name, "it gets the number of values of a window, and gives that of an answer"):
            size = self.operator.output_size(x.length)
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
            raise ParameterError(f"apply: output_size must give at least 1, got {size!r}")
        if self.operator.slides and size != x.length:
            raise ParameterError(
                f"apply: answers of {size} values cannot slide with windows of {x.length}",
                hint="slides = True says that an answer moves on as its window does, value by value",
            )
        return int(size)

    def moves(self, x: WindowedType) -> bool:
        """Whether answers follow from each other."""
        return self.raw and self.operator.incremental and x.hop < x.size

    def reach(self, x: WindowedType) -> Reach:
        """Back to the last recomputation."""
        return Reach.samples(x.timebase, before=x.hop * (self.operator.every - 1)) if self.moves(x) else Reach()

    def kernel(self, x: WindowedType) -> Kernel:
        """Run it."""
        return ApplyKernel(self.operator, x, self.type, self.moves(x))


def is_sliding(node: Node) -> bool:
    """Whether every window of a node is the last one moved on by a hop: samples, and what was made of each of them alone."""
    if isinstance(node, Apply):
        return node.raw and node.operator.slides
    if isinstance(node, Magnitude | Power | Phase):
        return is_sliding(node.inputs[0])
    return isinstance(node, Window)


class ApplyKernel(Kernel):
    """The last answer of every key, and the samples that its next window will lack."""

    def __init__(self, operator: WindowOperator, kind: WindowedType, out: WindowedType, moves: bool) -> None:
        self.operator, self.kind, self.out, self.moves = operator, kind, out, moves
        self.grids = KeyGrids(kind.timebase)
        each = (kind.channels,) if kind.channels else ()
        self.past = SlotArrays(
            y=Field(out.dtype, 0, (*each, out.length if moves else 0)),
            old=Field(kind.dtype, 0, (*each, kind.hop if moves else 0)),
            last=Field(np.int64, MIN_TIME),
        )

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """All windows of a batch, in rounds: each takes one window of every stretch between recomputations."""
        assert isinstance(batch, Windows)
        if not len(batch):
            return ()
        if not self.moves:
            return (batch.with_rows(self._fresh(batch.rows)),)
        self.past.reserve(len(self.keys))
        self.grids.learn(batch, len(self.keys))
        return (batch.with_values(self._moving(batch)),)

    def _moving(self, batch: Windows) -> Array:
        hop, rows = self.kind.hop, np.arange(len(batch))
        new = np.concatenate([[True], batch.slot[1:] != batch.slot[:-1]])
        before = np.concatenate([[MIN_TIME], batch.last[:-1]])
        before[new] = self.past["last"][batch.slot[new]]
        fresh = (before == MIN_TIME) | (batch.last - np.maximum(before, batch.last - 2 * hop) != hop)
        fresh |= ((batch.last - self.kind.size + 1) // hop) % self.operator.every == 0
        y = np.empty((*batch.values.shape[:-1], self.out.length), self.out.dtype)
        y[fresh] = self._each(batch.values[fresh])
        head = fresh | new
        round_ = rows - np.maximum.accumulate(np.where(head, rows, 0))
        carried = np.flatnonzero(new & ~fresh)
        if len(carried):
            slot = batch.slot[carried]
            self._follow(batch, y, carried, self.past["y"][slot], self.past["old"][slot])
        for turn in range(1, int(round_.max()) + 1):
            at = np.flatnonzero(round_ == turn)
            self._follow(batch, y, at, y[at - 1], batch.values[at - 1, ..., :hop])
        self._remember(batch, y)
        return y

    def _follow(self, batch: Windows, y: Array, at: Array, prior: Array, old: Array) -> None:
        """The windows at these positions from the answers before them; an answer that is not finite is not carried on."""
        values, prior, old = (v.reshape(-1, v.shape[-1]) for v in (batch.values[at], prior, old))
        good, out = np.isfinite(prior).all(axis=1), np.empty((len(values), self.out.length), self.out.dtype)
        if not good.all():
            out[~good] = self._fresh(values[~good])
            values, prior, old = values[good], prior[good], old[good]
        if len(values):
            moved = WindowMove(values, values[:, -self.kind.hop :], old)
            out[good] = self._checked(
                call_window_operator(self.operator, self.operator.update, self.out.length, moved, prior)
            )
        y[at] = out.reshape(len(at), *y.shape[1:])

    def _each(self, windows: Array) -> Array:
        """Windows afresh, each of their channels by itself."""
        return self._fresh(windows.reshape(-1, windows.shape[-1])).reshape(*windows.shape[:-1], self.out.length)

    def _fresh(self, values: Array) -> Array:
        if not len(values):
            return np.zeros((0, self.out.length), self.out.dtype)
        nothing = values[:, :0]
        x = WindowMove(values, nothing, nothing)
        return self._checked(call_window_operator(self.operator, self.operator.recompute, self.out.length, x))

    def _checked(self, y: Array) -> Array:
        if not np.can_cast(y.dtype, self.out.dtype, "same_kind"):
            raise DataError(
                f"apply: {type(self.operator).__qualname__} gave {y.dtype}, and {self.out.dtype} when it was tried",
                hint="the type must not depend on the data; end with .astype(...)",
            )
        return y.astype(self.out.dtype, copy=False)

    def _remember(self, batch: Windows, y: Array) -> None:
        end = np.flatnonzero(np.concatenate([batch.slot[1:] != batch.slot[:-1], [True]]))
        slot = batch.slot[end]
        self.past["y"][slot], self.past["last"][slot] = y[end], batch.last[end]
        self.past["old"][slot] = batch.values[end, ..., : self.kind.hop]
        self.past.touch(slot)

    def idle(self, marks: Marks) -> Mask:
        """Keys whose next window cannot follow the last one."""
        self.past.reserve(len(self.keys))
        last = self.past["last"][: len(self.keys)]
        return self.grids.ended_before(np.where(last == MIN_TIME, last, last + self.kind.hop), marks[0])


def call_window_operator(
    operator: WindowOperator, method: Callable[..., Any], size: int, moved: WindowMove, *before: Array
) -> Array:
    """Call a method of a user-defined operator; a wrong shape or an exception names it."""
    what, name, hint, sized = _words(operator, method, size)
    rows = len(moved.all)
    x = WindowMove(*(read_only(a) for a in (moved.all, moved.new, moved.old)))
    with frozen_operator(what, operator) as own:
        y = call_guarded(
            what, hint, lambda *prior: getattr(own, method.__name__)(x, *prior), *before, name=name, code=own
        )
    if y.shape == (rows,) and size == 1:
        y = y[:, None]
    if y.shape != (rows, size):
        raise DataError(
            f"{what}: {name} gave an array of shape {y.shape} for {rows} windows and {sized}",
            hint="it must give one row per window; reduce along axis 1 with keepdims=True",
        )
    return y


def _words(operator: WindowOperator, method: Callable[..., Any], size: int) -> tuple[str, str, str, str]:
    """For errors: what the user called and wrote, what that gets, and how large its answer is."""
    if isinstance(operator, Adding):
        names = [name_of(f) for f in (operator.add, operator.remove if method.__name__ == "update" else None) if f]
        gets = "the state and the samples are arrays with a row per window"
        return "aggregate", " and ".join(names), gets, f"a state of {size} each"
    name = f"{type(operator).__qualname__}.{method.__name__}"
    return "apply", name, "x.all, x.new, x.old and y are arrays with a row per window", f"an output_size of {size}"


class Adding(WindowOperator):
    """An aggregate from three functions: what a sample adds, what it takes away when it leaves, and the result."""

    def __init__(
        self,
        add: Callable[[Array, Array], Array],
        remove: Callable[[Array, Array], Array] | None,
        initial: tuple[float | complex, ...],
    ) -> None:
        self.add, self.remove, self.initial = add, remove, initial

    @property
    def incremental(self) -> bool:
        """Whether samples can be taken away."""
        return self.remove is not None

    def output_size(self, size: int) -> int:
        """Values of the state."""
        return len(self.initial)

    def recompute(self, x: WindowMove) -> Array:
        """Add all samples to nothing."""
        return self.add(np.repeat(np.asarray(self.initial)[None], len(x.all), axis=0), x.all)

    def update(self, x: WindowMove, y: Array) -> Array:
        """Add what came, take away what went."""
        assert self.remove is not None
        return self.remove(self.add(y, x.new), x.old)
