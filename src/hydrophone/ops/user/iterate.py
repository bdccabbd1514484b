"""User-defined stateful operators: arrays in, arrays out, and state arrays with a row per key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from hydrophone.errors import DataError, ParameterError
from hydrophone.model.batch import Batch, Ints, Mask, Windows
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.state import Field, SlotArrays
from hydrophone.model.time import MIN_TIME
from hydrophone.ops.base_kernels import GridKernel
from hydrophone.ops.user.calls import at_least_single, frozen_operator, naming_operator
from hydrophone.ops.windows.refusals import refuse_channels, refuse_labels
from hydrophone.plan.function_identity import operator_identity
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.types import WindowedType

Array = npt.NDArray[Any]


class StatefulOperator:
    """Base of user-defined stateful operators.

    `start` gives the state of a key before its first samples, as a dictionary of numbers and arrays. `step` takes samples (a row
    per key, `size` of them in each, in blocks on the absolute grid) and the state (arrays with a row per key), changes the
    state in place, and gives an array with a row per key. All keys that have a block are given at once, each key's blocks
    in order. The larger `size`, the fewer calls; blocks are complete or not there, so the answer never depends on chunks.

    Examples
    --------
    >>> class Highest(StatefulOperator):
    ...     size = 4
    ...     def start(self):
    ...         return {"top": -np.inf}
    ...     def step(self, x, state):
    ...         y = np.maximum.accumulate(np.column_stack([state["top"], x]), axis=1)[:, 1:]
    ...         state["top"][:] = y[:, -1]
    ...         return y
    """

    size: ClassVar[int] = 1
    """Samples per call."""

    def start(self) -> Mapping[str, Any]:
        """The state of a key that is new."""
        raise NotImplementedError

    def step(self, x: Array, state: dict[str, Array]) -> Array:
        """One block of every key."""
        raise NotImplementedError

    def __repr__(self) -> str:
        inside = ", ".join(f"{n}={v!r}" for n, v in vars(self).items())
        return f"{type(self).__qualname__}({inside})"

    @property
    def identity(self) -> str:
        """The code of its methods and its attributes: equal in every process."""
        return operator_identity(self, StatefulOperator)


@dataclass(frozen=True, kw_only=True, eq=False)
class Iterate(Node):
    """A user-defined stateful operator over windows; reference: its `step` in a loop over the windows of one key.

    Start: the operator's `start`. Gap: where the window before is missing, a key starts afresh. End: nothing follows the last
    window. NaN: what the state makes of it is the operator's own affair.
    """

    stable_name = "iterate"

    operator: StatefulOperator

    needs = Order.INDEX
    gives = Order.INDEX

    def check(self) -> None:
        """An operator with a block size."""
        if not isinstance(self.operator, StatefulOperator):
            raise ParameterError(
                f"iterate: expected a StatefulOperator, got {type(self.operator).__name__}",
                hint="class Mine(hp.StatefulOperator) with start(self) and step(self, x, state)",
            )

    def output_type(self, x: WindowedType) -> WindowedType:
        """The operator is tried on two windows of ones."""
        refuse_channels("iterate", x)
        refuse_labels("iterate", x)
        fields = state_fields(self.operator)
        state = {n: np.repeat(np.full((1, *f.shape), f.fill, f.dtype), 2, axis=0) for n, f in fields.items()}
        y = call_step(self.operator, np.ones((2, x.length), x.dtype), state, fields)
        return replace(x, dtype=y.dtype, length=y.shape[1])

    def reach(self, x: WindowedType) -> Reach:
        """What the state remembers."""
        return Reach.unbounded(f"iterate: {type(self.operator).__qualname__} may remember everything until a hole")

    def kernel(self, x: WindowedType) -> Kernel:
        """Run it."""
        return IterateKernel(self.operator, x, self.type)


class IterateKernel(GridKernel[Windows]):
    """The state of every key, and its last window."""

    def __init__(self, operator: StatefulOperator, kind: WindowedType, out: WindowedType) -> None:
        super().__init__(kind.timebase)
        self.operator, self.kind, self.out = operator, kind, out
        self.fields = state_fields(operator)
        self.state = SlotArrays(**self.fields)
        self.last = SlotArrays(last=Field(np.int64, MIN_TIME))

    def take(self, batch: Windows) -> Iterable[Batch]:
        """All windows of a batch, in rounds: each takes the next window of every key."""
        for state in (self.state, self.last):
            state.reserve(len(self.keys))
        rows = np.arange(len(batch))
        new = np.concatenate([[True], batch.slot[1:] != batch.slot[:-1]])
        before = np.concatenate([[MIN_TIME], batch.last[:-1]])
        before[new] = self.last["last"][batch.slot[new]]
        fresh = before != batch.last - self.kind.hop
        turn = rows - np.maximum.accumulate(np.where(new, rows, 0))
        y = np.empty((len(batch), self.out.length), self.out.dtype)
        for at in np.split(np.argsort(turn, kind="stable"), np.cumsum(np.bincount(turn))[:-1]):
            y[at] = self._turn(batch.slot[at], batch.values[at], fresh[at])
        end = np.concatenate([new[1:], [True]])
        self.last["last"][batch.slot[end]] = batch.last[end]
        for state in (self.state, self.last):
            state.touch(batch.slot[end])
        return (batch.with_values(y),)

    def _turn(self, slot: Ints, x: Array, fresh: Mask) -> Array:
        self.state.release(slot[fresh])
        state = {n: self.state[n][slot] for n in self.fields}
        y = call_step(self.operator, x, state, self.fields)
        if y.shape[1] != self.out.length or not np.can_cast(y.dtype, self.out.dtype, "same_kind"):
            raise DataError(
                f"iterate: {type(self.operator).__qualname__}.step gave {y.shape[1]} values of {y.dtype} per key, "
                f"and {self.out.length} of {self.out.dtype} when it was tried",
                hint="shape and type must not depend on the data",
            )
        for name in self.fields:
            self.state[name][slot] = state[name]
        return y

    def idle(self, marks: Marks) -> Mask:
        """Keys whose next window cannot follow the last one."""
        self.state.reserve(len(self.keys))
        self.last.reserve(len(self.keys))
        last = self.last["last"][: len(self.keys)]
        return self.grids.ended_before(np.where(last == MIN_TIME, last, last + self.kind.hop), marks[0])


def state_fields(operator: StatefulOperator) -> dict[str, Field]:
    """The state of a new key as arrays that a snapshot can hold."""
    name = type(operator).__qualname__
    hint = 'it gives a dictionary of numbers and arrays: {"top": 0.0}'
    with frozen_operator("iterate", operator) as own, naming_operator("iterate", f"{name}.start", hint):
        start = dict(own.start())
    fields = {}
    for key, value in start.items():
        array = at_least_single(np.asarray(value))
        if not isinstance(key, str) or key.startswith("__") or array.dtype.kind not in "iufc" or not array.size:
            raise DataError(
                f"iterate: {name}.start gives {key!r}: {array.dtype} of shape {array.shape}, which cannot be kept",
                hint="state is numbers and arrays of numbers by name; True and False are 1 and 0",
            )
        fields[key] = Field(array.dtype, array, array.shape)
    return fields


def call_step(operator: StatefulOperator, x: Array, state: dict[str, Array], fields: Mapping[str, Field]) -> Array:
    """Call a user's `step`; a wrong shape or an exception names it."""
    name, rows = f"{type(operator).__qualname__}.step", len(x)
    with (
        frozen_operator("iterate", operator) as own,
        naming_operator("iterate", name, "x and the arrays in state have a row per key"),
    ):
        y = at_least_single(np.asarray(own.step(x, state)))
    if y.shape == (rows,):
        y = y[:, None]
    if y.ndim != 2 or len(y) != rows:
        raise DataError(
            f"iterate: {name} gave an array of shape {y.shape} for {rows} keys", hint="it must give one row per key"
        )
    for key, f in fields.items():
        kept = np.asarray(state.get(key))
        if kept.shape != (rows, *f.shape) or not np.can_cast(kept.dtype, f.dtype, "same_kind"):
            raise DataError(
                f"iterate: {name} left {kept.dtype} of shape {kept.shape} in state[{key!r}], which was {np.dtype(f.dtype)} "
                f"of shape {(rows, *f.shape)}",
                hint='change it in place: state["name"][:] = ...',
            )
    return y
