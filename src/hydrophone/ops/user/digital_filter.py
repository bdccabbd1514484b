"""User-defined digital filters: each output from the last inputs and outputs."""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from hydrophone.errors import DataError, ParameterError
from hydrophone.model.batch import Batch, Ints, Mask, Segments
from hydrophone.model.compiled import compiled
from hydrophone.model.kernel import Kernel
from hydrophone.model.state import Field
from hydrophone.model.time import MIN_TIME
from hydrophone.ops.base_kernels import RecursiveKernel
from hydrophone.ops.user.calls import frozen_operator, naming_operator, read_only, user_error
from hydrophone.plan.function_identity import operator_identity
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import Missing, UniformType

Array = npt.NDArray[Any]


class DigitalFilter:
    """Base of user-defined filters: `compute` gives one output from the last inputs and outputs.

    ``x[-1]`` is the newest input and ``x[-forward]`` the oldest, ``y[-1]`` the newest output and ``y[-backward]`` the oldest.
    Before the first sample of a key all are zero. `compute` is compiled (by Numba, sample by sample: it may branch, and read
    attributes that are numbers or arrays). With ``compiled = False`` it is plain Python: ``x[-1]`` and ``y[-1]`` are then
    arrays with a value per key, and the answer is one too.

    `missing` says what a hole does: ``"reset"`` starts afresh, with zeros before the next sample; ``"drop"`` too, but `compute` is
    not called until all `forward` inputs are there, and finds outputs of zero then; with ``"zero"`` a hole counts as zeros, and
    with feedback `settle` says after how many of them the filter has come to rest: a longer hole starts afresh.

    Examples
    --------
    >>> class Leaky(DigitalFilter):
    ...     forward, backward, missing = 1, 1, "reset"
    ...     def compute(self, x, y):
    ...         return 0.05 * x[-1] + 0.95 * y[-1]
    """

    forward: ClassVar[int] = 1
    """How many inputs it looks at, the newest among them."""
    backward: ClassVar[int] = 0
    """How many of its own outputs it looks at."""
    missing: ClassVar[str] = "reset"
    """What a hole does: ``"reset"``, ``"drop"`` or ``"zero"``."""
    settle: ClassVar[int] = 0
    """With feedback and ``"zero"``: how many zeros bring the filter to rest; a longer hole starts afresh."""
    compiled: ClassVar[bool] = True

    def compute(self, x: Any, y: Any) -> Any:
        """One output."""
        raise NotImplementedError

    def __repr__(self) -> str:
        inside = ", ".join(f"{n}={v!r}" for n, v in vars(self).items())
        return f"{type(self).__qualname__}({inside})"

    @property
    def identity(self) -> str:
        """The code of its methods and its attributes: equal in every process."""
        return operator_identity(self, DigitalFilter)

    @property
    def longest(self) -> int:
        """The longest hole that is gone through with zeros."""
        if self.missing != "zero":
            return 0
        return self.settle if self.backward else self.forward - 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Filter(Node):
    """A user-defined digital filter; reference: its `compute` in a loop over the samples of one key.

    Start: zeros before the first sample. Gap: as the filter's `missing` says. End: nothing follows the last sample.
    NaN: a filter with feedback that gives NaN or an infinity starts afresh with the next sample, so that one bad reading
    does not stay for ever.
    """

    stable_name = "filter"

    operator: DigitalFilter

    needs = Order.INDEX
    gives = Order.INDEX

    def check(self) -> None:
        """A filter whose attributes make sense."""
        f = self.operator
        if not isinstance(f, DigitalFilter):
            raise ParameterError(
                f"filter: expected a DigitalFilter, got {type(f).__name__}",
                hint="class Mine(hp.DigitalFilter) with compute(self, x, y); to keep some events use where",
            )
        if f.forward < 1 or f.backward < 0:
            raise ParameterError(
                f"filter: forward must be at least 1 and backward at least 0, got {f.forward} and {f.backward}"
            )
        Missing.of(f.missing, "filter")
        if f.missing == "zero" and f.backward and f.settle < 1:
            raise ParameterError(
                'filter: with feedback and missing="zero" it must say after how many zeros it has come to rest',
                hint='settle = 1000 beside missing = "zero", or missing = "reset"',
            )

    def output_type(self, x: UniformType) -> UniformType:
        """The filter is tried on ones; at least double precision."""
        f = self.operator
        dtype = np.result_type(x.dtype, np.float64)
        for _ in range(2):  # what it gives may depend on what it gave
            rows = () if f.compiled else (2,)
            y = np.asarray(_called(f, np.ones((f.forward, *rows), dtype), np.ones((f.backward, *rows), dtype)))
            _check_shape(f, y, rows)
            if y.dtype.kind not in "biufc":
                raise DataError(f"filter: {_name(f)} gave {y.dtype}, which is no number")
            dtype = np.result_type(dtype, y.dtype)
        if f.compiled:
            kernel = FilterKernel(f, UniformType(x.key, x.time, x.clock, dtype, x.channels, x.timebase))
            none = np.zeros(0, np.int64)
            kernel.compiled_loop(np.zeros((0, max(x.channels, 1)), dtype), none, none, np.zeros(1, np.int64), none)
        return UniformType(x.key, x.time, x.clock, dtype, x.channels, x.timebase)

    def reach(self, x: UniformType) -> Reach:
        """The inputs, where it has no feedback."""
        if self.operator.backward:
            return Reach.unbounded(f"filter: {_name(self.operator)} uses its own output")
        return Reach.samples(x.timebase, before=self.operator.forward - 1)

    def kernel(self, x: UniformType) -> Kernel:
        """Run it."""
        return FilterKernel(self.operator, self.type)


class FilterKernel(RecursiveKernel):
    """The last inputs and outputs of every key and channel."""

    def __init__(self, operator: DigitalFilter, out: UniformType) -> None:
        channels = max(out.channels, 1)
        super().__init__(
            out,
            operator.longest,
            x=Field(out.dtype, 0, (channels, operator.forward)),
            y=Field(out.dtype, 0, (channels, operator.backward)),
            seen=Field(np.int64),
        )
        self.operator = operator
        self.waits = (
            operator.forward - 1 if operator.missing == "drop" else 0
        )  # samples before the first that is computed
        self.seen: Ints = np.zeros(0, np.int64)

    def take(self, batch: Segments) -> Iterable[Batch]:
        """Filter one batch; with ``drop``, without what lacks inputs."""
        self.memory.reserve(len(self.keys))
        # Samples without a hole before each run: only the first run of a slot can go on from another batch.
        self.seen = np.where(self.memory["due"][batch.slot] == batch.first, self.memory["seen"][batch.slot], 0)
        for y in super().take(batch):
            assert isinstance(y, Segments)
            self.memory["seen"][batch.slot] = self.seen + batch.lengths
            if self.waits:
                lacking = np.maximum(self.waits - self.seen, 0)
                y = y.cut(np.arange(len(y)), np.minimum(y.first + lacking, y.next), y.next)
            yield y

    def loop(self, x: Array, batch: Segments) -> None:
        """By the compiled filter, or a sample of every key at a time."""
        run = self.compiled_loop if self.operator.compiled else self._rounds
        run(x, batch.slot, batch.first, batch.offsets, np.maximum(self.waits - self.seen, 0))

    def compiled_loop(self, x: Array, slot: Ints, first: Ints, offsets: Ints, lacking: Ints) -> None:
        """In place, by the compiled filter; the first `lacking` samples of a run are remembered only."""
        f = self.operator
        kind: Any = type(f)
        compute, me = compiled_compute(kind), attributes(f)
        state = self.memory["x"], self.memory["y"], self.memory["due"]
        try:
            _loop(compute, me, x, slot, first, offsets, lacking, *state, self.longest, f.backward > 0)
        except Exception as error:
            if not type(error).__module__.startswith("numba"):
                raise user_error("filter", _name(f), _GETS, error) from error
            reason = [line for line in str(error).splitlines() if line.strip() and "nopython" not in line]
            raise DataError(
                f"filter: {_name(f)} cannot be compiled: {' '.join(reason[:2])}",
                hint="compiled = False gives it arrays with a value per key, in plain Python",
            ) from error

    def _rounds(self, x: Array, slot: Ints, first: Ints, offsets: Ints, lacking: Ints) -> None:
        """In place, one sample of every key at a time; the runs of one key come one after the other."""
        lengths = np.diff(offsets)
        before = np.cumsum(lengths) - lengths
        new = np.concatenate([[True], slot[1:] != slot[:-1]])
        head = np.maximum.accumulate(np.where(new, np.arange(len(slot)), 0))
        place = np.arange(len(x)) - np.repeat(before[head], lengths)
        order = np.argsort(place, kind="stable")
        owner = np.repeat(np.arange(len(slot)), lengths)
        with frozen_operator(
            "filter", self.operator
        ) as own:  # once for all samples: to look at it takes longer than a sample
            for at in np.split(order, np.cumsum(np.bincount(place))[:-1]):
                run = owner[at]
                behind = at - offsets[run]
                self._round(own, x, at, slot[run], first[run] + behind, behind < lacking[run])

    def _round(self, f: DigitalFilter, x: Array, at: Ints, slot: Ints, index: Ints, lacks: Mask) -> None:
        due = self.memory["due"]
        known = due[slot] != MIN_TIME
        gap = np.where(known, index - np.where(known, due[slot], 0), 0)
        self._rest(slot[gap > f.longest])
        gap = np.where(gap > f.longest, 0, gap)
        for zeros in range(int(gap.max(initial=0))):
            on = slot[gap > zeros]
            self._advance(f, on, np.zeros((len(on), x.shape[1]), x.dtype))
        self._remember(slot[lacks], x[at[lacks]])
        if not lacks.all():
            x[at[~lacks]] = self._advance(f, slot[~lacks], x[at[~lacks]])
        due[slot] = index + 1

    def _remember(self, slot: Ints, value: Array) -> None:
        """One more input for these slots, which is not enough yet."""
        xs = self.memory["x"][slot]
        self.memory["x"][slot] = np.concatenate([xs[:, :, 1:], value[:, :, None]], axis=2)

    def _advance(self, f: DigitalFilter, slot: Ints, value: Array) -> Array:
        """One more input for these slots: what the filter gives."""
        past = self.memory
        xs, ys = past["x"][slot], past["y"][slot]
        xs = np.concatenate([xs[:, :, 1:], value[:, :, None]], axis=2)
        rows = len(slot) * value.shape[1]
        flat = [np.ascontiguousarray(np.moveaxis(a, 2, 0)).reshape(a.shape[2], rows) for a in (xs, ys)]
        with naming_operator("filter", _name(f), _GETS):
            y = np.asarray(f.compute(*flat))
        _check_shape(f, y, (rows,))
        if not np.can_cast(y.dtype, self.out.dtype, "same_kind"):
            raise DataError(
                f"filter: {_name(f)} gave {y.dtype}, and {self.out.dtype} when it was tried",
                hint="the type must not depend on the data; end with .astype(...)",
            )
        y = y.astype(self.out.dtype, copy=False).reshape(value.shape)
        if f.backward:
            bad = ~np.isfinite(y)
            ys = np.concatenate([ys[:, :, 1:], y[:, :, None]], axis=2)
            xs[bad] = 0
            ys[bad] = 0
        past["x"][slot], past["y"][slot] = xs, ys
        return y

    def _rest(self, slot: Ints) -> None:
        self.memory["x"][slot] = 0
        self.memory["y"][slot] = 0


@functools.lru_cache(maxsize=64)
def compiled_compute(kind: Any) -> Any:
    """The compiled `compute` of a class; attributes come in place of ``self``."""
    import numba

    return numba.njit(error_model="numpy", nogil=True)(kind.compute)


def attributes(operator: DigitalFilter) -> Any:
    """The numbers and arrays that `compute` may read from ``self``."""
    known = {n: v for c in reversed(type(operator).__mro__) for n, v in vars(c).items()} | vars(operator)
    plain = bool | int | float | complex | np.ndarray | np.generic
    values = {n: v for n, v in known.items() if isinstance(v, plain) and not n.startswith("_")}
    values = {n: read_only(v) if isinstance(v, np.ndarray) else v for n, v in values.items()}
    return _attributes(tuple(sorted(values)))(**values)


@functools.lru_cache(maxsize=64)
def _attributes(names: tuple[str, ...]) -> Any:
    """One class for the same names: the compiler takes every class for another type."""
    return namedtuple("Attributes", names)


@compiled(interpret=False, keep=False)
def _loop(
    compute: Any,
    me: Any,
    x: Any,
    slot: Any,
    first: Any,
    offsets: Any,
    lacking: Any,
    xs: Any,
    ys: Any,
    due: Any,
    longest: int,
    feeds: bool,
) -> None:
    for run in range(len(slot)):
        s = slot[run]
        gap = first[run] - due[s] if due[s] != MIN_TIME else 0
        if gap > longest:
            xs[s] = 0
            ys[s] = 0
            gap = 0
        for c in range(x.shape[1]):
            for _ in range(gap):
                _one(compute, me, xs[s, c], ys[s, c], x.dtype.type(0), feeds)
            full = min(offsets[run] + lacking[run], offsets[run + 1])
            for i in range(offsets[run], full):
                _push(xs[s, c], x[i, c])
            for i in range(full, offsets[run + 1]):
                x[i, c] = _one(compute, me, xs[s, c], ys[s, c], x[i, c], feeds)
        due[s] = first[run] + offsets[run + 1] - offsets[run]


@compiled(interpret=False, keep=False)
def _push(past: Any, value: Any) -> None:
    for j in range(len(past) - 1):
        past[j] = past[j + 1]
    past[-1] = value


@compiled(interpret=False, keep=False)
def _one(compute: Any, me: Any, x: Any, y: Any, value: Any, feeds: bool) -> Any:
    _push(x, value)
    found = compute(me, x, y)
    if feeds:
        _push(y, found)
        if found - found != 0:
            x[:] = 0
            y[:] = 0
    return found


def _called(operator: DigitalFilter, *arguments: Any) -> Any:
    with frozen_operator("filter", operator) as own, naming_operator("filter", _name(operator), _GETS):
        return own.compute(*arguments)


_GETS = "x holds the last `forward` inputs and y the last `backward` outputs, the newest last"


def _check_shape(operator: DigitalFilter, y: Array, wanted: tuple[int, ...]) -> None:
    if y.shape != wanted:
        what = "one number" if wanted == () else f"an array of shape {wanted}, a value per key"
        raise DataError(
            f"filter: {_name(operator)} gave an array of shape {y.shape} where {what} is expected",
            hint="x[-1] is the newest input; x is all of them",
        )


def _name(operator: DigitalFilter) -> str:
    return f"{type(operator).__qualname__}.compute"
