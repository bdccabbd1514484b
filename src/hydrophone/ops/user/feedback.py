"""Feedback: a plan whose output comes back to it some time later."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from hydrophone.errors import DataError, ParameterError, SignalTypeError
from hydrophone.model.batch import Batch, Ints, Mask, Segments
from hydrophone.model.held_segments import HeldSegments
from hydrophone.model.kernel import Kernel, Marks
from hydrophone.model.marks import Mark
from hydrophone.model.state import HeldBatches, State
from hydrophone.model.time import MAX_TIME, MIN_TIME
from hydrophone.model.timebase import Timebase
from hydrophone.plan.node import Node, Order
from hydrophone.plan.reach import Reach
from hydrophone.plan.source import Layout, Port
from hydrophone.plan.types import UniformType, rate


@dataclass(frozen=True, kw_only=True, eq=False)
class Inlet(Port):
    """What the body of a feedback reads: its input `x` at port 0, or at port 1 `y`, the output some time later.

    Attributes
    ----------
    kind : the type of the samples
    level : how many bodies it lies in: a body reads no inlets but its own
    """

    stable_name = "inlet"

    kind: UniformType
    level: int

    gives = Order.INDEX

    @classmethod
    def pair(cls, x: Node, y: UniformType) -> tuple[Inlet, Inlet]:
        """What the body of a feedback over this node reads."""
        level = 1 + max([leaf.level for leaf in x.topological() if isinstance(leaf, Inlet)], default=0)
        return cls._of("x", x.type, level), cls._of("y", y, level)

    @classmethod
    def _of(cls, name: str, kind: UniformType, level: int) -> Inlet:
        layout = Layout(kind.key, tuple(kind.key.names), kind.time)
        return cls(number=int(name == "y"), layout=layout, source=f"feedback {name}", kind=kind, level=level)

    def check(self) -> None:
        """Its type was checked where it was made."""

    def output_type(self) -> UniformType:
        """As given."""
        return self.kind


@dataclass(frozen=True, kw_only=True, eq=False)
class Feedback(Node):
    """A plan over the input `x` and its own output `y`, `delay` samples later; reference: the recurrence in a loop over samples.

    `y` has a sample wherever `x` has one: the output `delay` samples before, or zero where there was none. Start: `y` is zero for the
    first `delay` samples. Gap: zero comes back for what is missing, so that after a hole of `delay` samples, and what the body itself
    remembers, a key is as new. End: nothing follows the last sample but what the body still holds.
    """

    stable_name = "feedback_plan"

    body: Node = field(compare=False)
    delay: int

    needs = Order.INDEX

    def identifying(self) -> Iterator[tuple[str, Any]]:
        """The body is known by its digest."""
        yield "body", self.body.digest
        yield from super().identifying()

    @property
    def hosted(self) -> Node:
        """The body."""
        return self.body

    def check(self) -> None:
        """A delay of samples, and a body over the same keys that hears of its own output."""
        if self.delay < 1:
            raise ParameterError(
                f"feedback: delay must be at least one sample, got {self.delay}",
                hint="what comes out of an instant cannot be known before it",
            )
        _ = self.type  # other keys and grids are refused first
        leaves = [node for node in self.body.topological() if not node.inputs]
        inlets = Inlet.pair(self.inputs[0], self.body.type)
        if strange := [node for node in leaves if node not in inlets]:
            raise ParameterError(
                f"feedback: the body reads another signal, {strange[0].type.describe()}",
                hint="a body reads only its two arguments: zip or combine the signals first, and take feedback of the result",
            )
        if inlets[1] not in leaves:
            raise ParameterError(
                "feedback: the body does not use its second argument, the output that comes back",
                hint="without it there is no feedback: call the function itself, f(x)",
            )

    def output_type(self, x: UniformType) -> UniformType:
        """What the body gives."""
        if x.timebase is None:
            raise SignalTypeError(
                "feedback: every key has a period of its own, and a delay needs one period",
                hint='bring all keys to one grid first: .resample("10ms", fill=hp.linear(max_gap="1s"))',
            )
        y = self.body.type
        if any(node.type.scope != x.scope for node in self.body.topological()):
            raise SignalTypeError(
                f"feedback: the body changes the key {list(x.key.names)}",
                hint="a signal comes back to its own key: use key_by before or after",
            )
        if not isinstance(y, UniformType):
            raise SignalTypeError(
                f"feedback: the body must give a uniform signal, and gives {y.describe()}",
                hint='bring it back to the grid of its input: .signal("name").sample(period)',
            )
        if y.timebase != x.timebase:
            raise SignalTypeError(
                f"feedback: the body gives {rate(y.timebase)} and takes {rate(x.timebase)}",
                hint="bring its output back to the grid of its input: resample",
            )
        return y

    @cached_property
    def order(self) -> Order:
        """That of the body's output."""
        return self.body.order

    def reach(self, x: UniformType) -> Reach:
        """What has come back once may come back for ever."""
        return Reach.unbounded("feedback: what has come back may matter for ever")

    def check_stream(self, waiting: str | None) -> None:
        """What the operators of the body refuse."""
        for node in self.body.topological():
            node.check_stream("feedback")

    def describe(self) -> str:
        """The delay, and the operators of the body."""
        names = [node.name() for node in self.body.topological() if node.inputs]
        return f"delay={self.delay}, body={' '.join(names)}"

    def kernel(self, x: UniformType) -> Kernel:
        """Run the body block by block."""
        assert x.timebase is not None
        return LoopKernel(x.timebase, self.body.type, self.delay)


class LoopKernel(Kernel):
    """Runs the body over blocks of at most `delay` samples: all that comes back within one is known when it begins.

    Held are the samples that wait for progress, and the outputs that may still come back.
    """

    def __init__(self, timebase: Timebase, y: UniformType, delay: int) -> None:
        self.timebase, self.delay = timebase, delay
        self.waiting: HeldBatches[Segments] = HeldBatches(Segments)
        self.past = HeldSegments(np.zeros((0, y.channels) if y.channels else 0, y.dtype))

    def step(self, port: int, batch: Batch) -> Iterable[Batch]:
        """Hold: only progress says what comes back as zero."""
        assert isinstance(batch, Segments)
        self.waiting.add(batch)
        return ()

    def advance(self, marks: Marks) -> tuple[Iterable[Batch], Mark]:
        """Run the body over all that is known, block by block."""
        if marks[0] == MIN_TIME:
            return (), MIN_TIME
        until = self.timebase.index_from(marks[0])
        todo, found = _Todo(self._take(until)), []
        while (begin := todo.begin) < until:
            batches, mark = self._run(self.timebase.instant(begin))
            found += batches
            end = min(self.timebase.index_from(mark) + self.delay, until)
            if end <= begin:
                raise DataError(
                    "feedback: the body holds its results back for longer than the delay, so that they cannot come back in time",
                    hint="use a longer delay, or operators that look ahead less: a causal filter instead of filtfilt",
                )
            x = todo.take(end)
            self.nested.take(0, x)
            y = self.past.padded(x.slot, x.first - self.delay, x.next - self.delay)
            self.nested.take(1, x.with_values(y))
        batches, mark = self._run(marks[0])
        return found + batches, mark

    def _take(self, until: int) -> Segments | None:
        """The samples before a grid index."""
        held = self.waiting.all()
        if held is None:
            return None
        known, rest = held.split(np.full(len(held), until))
        self.waiting.replace(rest, known.slot)
        return known

    def _run(self, mark: int) -> tuple[list[Batch], int]:
        """Let the body know that all before the mark has come; its results, which are kept for as long as they may come back."""
        batches, out = self.nested.advance(mark)
        for batch in batches:
            assert isinstance(batch, Segments)
            self.past.add(batch)
        self.past.forget(np.full(len(self.keys), self.timebase.index_from(mark) - self.delay))
        return batches, out

    # --- state ------------------------------------------------------------------------------------------------------------

    @property
    def VERSION(self) -> int:  # type: ignore[override]
        """Its own and those of the body."""
        return 1 + self.nested.version

    def states(self) -> dict[str, State]:
        """Its own, and that of the body."""
        return self._states | dict(self.nested.states() if hasattr(self, "nested") else {})

    def compact(self) -> None:
        """That of the body."""
        self.nested.compact()

    def idle(self, marks: Marks) -> Mask:
        """Keys that the body does not need."""
        return self.nested.forgettable()

    def release(self, slots: Ints) -> None:
        """The body forgets them too; what is held here holds nothing of them."""
        self.nested.release(slots)


class _Todo:
    """Samples that are taken in the order of their grid index, of all keys together. What is left is not copied."""

    def __init__(self, x: Segments | None) -> None:
        none = np.zeros(0, np.int64)
        self.x = x
        self.order = none if x is None else np.argsort(x.first, kind="stable")
        self.first = none if x is None else x.first[self.order]
        self.entered, self.open, self.done = 0, none, 0

    @property
    def begin(self) -> int:
        """The index of the next sample; at the end beyond all indices."""
        if len(self.open):
            return self.done
        return int(self.first[self.entered]) if self.entered < len(self.first) else MAX_TIME

    def take(self, end: int) -> Segments:
        """The samples before a grid index that were not taken yet."""
        assert self.x is not None
        entered = int(np.searchsorted(self.first, end))
        runs = np.sort(np.concatenate([self.open, self.order[self.entered : entered]]))
        start = np.maximum(self.x.first[runs], self.done) if len(self.open) else self.x.first[runs]
        after = self.x.next[runs]
        self.entered, self.open, self.done = entered, runs[after > end], end
        return self.x.cut(runs, start, np.minimum(after, end))
