"""Stations: the operators of a running plan, each with its kernel, consumers, keys and progress."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from hydrophone.engine.key_marks import KeyMarks
from hydrophone.errors import HydrophoneError
from hydrophone.model.batch import Batch, Mask, Progress
from hydrophone.model.kernel import Kernel
from hydrophone.model.key_table import KeyTable
from hydrophone.model.marks import Mark, Marks, low_water_mark, marks_by_slot
from hydrophone.model.nested import NestedPlan
from hydrophone.model.state import HeldBatches, KeptRows, State
from hydrophone.model.time import MAX_TIME, MIN_TIME
from hydrophone.plan.node import Node, locating
from hydrophone.plan.source import Port

Scope = tuple[tuple[str, str], ...]
"""Names and types of key columns, as text."""


class Input(Protocol):
    """What a station reads: another station, or a buffer behind it."""

    node: Node
    progress: Progress

    @property
    def out_keys(self) -> KeyTable:
        """The keys of what it gives."""

    def mark_by_key(self) -> Mark:
        """The mark of what it gives, or marks per key."""


class Reader(Protocol):
    """What takes batches: a station, or a buffer in front of it."""

    node: Node
    out: list[Batch] | None
    downstream: tuple[tuple[Reader, int], ...]

    @property
    def step(self) -> Callable[[int, Batch], Iterable[Batch]]:
        """Take a batch on an input port."""

    @property
    def live(self) -> bool:
        """Whether a root that has not failed needs it."""

    @property
    def roots(self) -> set[Node]:
        """The roots that need it."""

    def locate(self, error: BaseException) -> None:
        """Add the operator and the user's line to an error."""


class Station:
    """A running operator, or a port.

    Values that every turn needs are computed once, here.

    Attributes
    ----------
    node : what it runs
    kernel : its kernel; at a port with progress per key the `KeyMarks`, at other ports None
    inputs : the stations that it reads, or the buffers in between
    readers : the stations that read it, with their port, in the order of creation
    consumers : those that are live
    keys, out_keys : the keys of the inputs and of the output
    states : what the kernel keeps, by name
    progress : the progress of the output
    roots : the roots that need it
    out : its undrained batches, if it is a root
    live : whether a root that has not failed needs it
    relatives : what stations have in common that can run as one; None: this one runs by itself
    family : what runs it together with others
    gated : whether rows are left out for it alone, so that it does its own work
    meter : what it takes, gives and costs, where somebody counts
    """

    def __init__(
        self, node: Node, inputs: Sequence[Station], out_keys: KeyTable, nested: NestedPlan | None = None
    ) -> None:
        self.node, self.out_keys = node, out_keys
        self.inputs: tuple[Input, ...] = tuple(inputs)
        self.keys = self.inputs[0].out_keys if inputs else out_keys
        self.kernel = self._made(node)
        if self.kernel is not None and nested is not None:
            self.kernel.nested = nested
        self.readers: tuple[tuple[Station, int], ...] = ()
        self.consumers: tuple[tuple[Station, int], ...] = ()
        self.downstream: tuple[tuple[Reader, int], ...] = ()  # in reverse, for the stack
        self.progress = Progress(MIN_TIME)
        self.roots: set[Node] = set()
        self.out: list[Batch] | None = None
        self.live = True
        self.family: Any = None
        self.gated = False
        self.meter: Any = None
        self._prepare()

    def _made(self, node: Node) -> Kernel | None:
        with locating(node):
            kernel = node.kernel(*(i.node.type for i in self.inputs)) if self.inputs else _make_key_marks(node)
        if kernel is not None:
            kernel.keys, kernel.out_keys = self.keys, self.out_keys
        return kernel

    def _prepare(self) -> None:
        node, kernel, scope = self.node, self.kernel, self.node.type.scope
        self.digest = node.digest
        self.step: Callable[[int, Batch], Iterable[Batch]] = _port_has_no_step if kernel is None else kernel.step
        self.scopes = {scope_digest(scope), *(scope_digest(i.node.type.scope) for i in self.inputs)}
        self.states: dict[str, State] = {} if kernel is None else kernel.states()
        self.kept = {name: state for name, state in self.states.items() if isinstance(state, KeptRows)}
        self.paired = node.paired
        self.keeps_ends = node.keeps_ends
        self.key_marks = kernel if isinstance(kernel, KeyMarks) else None
        self.keyed = (
            kernel is not None and kernel.takes_key_marks and all(i.node.type.scope == scope for i in self.inputs)
        )
        self.by_pairs = self.paired is not None and self.paired in node.type.key.names
        passes = kernel is not None and type(kernel).advance is Kernel.advance
        self.passes_on = passes and self.keyed and self.keeps_ends and self.paired is None and len(self.inputs) == 1
        self.remembers = bool(self.states) or (
            kernel is not None
            and any(
                getattr(type(kernel), name) is not getattr(Kernel, name) for name in ("idle", "forgettable", "release")
            )
        )
        common = node.family if self.inputs else None
        self.relatives = None if common is None else (type(kernel), common)
        self._by_key: Mark | None = None

    # --- running --------------------------------------------------------------------------------------------------------

    def promise(self, given: Progress) -> None:
        """Take the progress of a port."""
        mark = max(self.progress.mark, given.mark)
        joint = given.joint if self.paired is not None else None
        by_key = None if self.key_marks is None else self.key_marks.all(mark)
        self._by_key, self.progress = None, Progress(mark, joint, max(given.ends, mark), by_key)

    def pass_on(self) -> bool:
        """Take over the progress of the only input unchanged, if possible."""
        given = self.inputs[0].progress
        if given.by_key is not None or given.joint is not None or given.mark < self.progress.mark:
            return False
        self.progress = given
        return True

    def marks(self) -> Marks:
        """The marks for the kernel; per key where inputs have them, share the key, and the kernel takes them."""
        given = [i.progress for i in self.inputs]
        starts = [i.mark_by_key() for i in self.inputs] if self.keyed else [p.mark for p in given]
        return Marks(tuple(starts), tuple([p.joint for p in given]), min([p.ends for p in given]))

    def take_mark(self, marks: Marks, mark: Mark) -> None:
        """Set the output mark that the kernel returned for these marks, after its batches were delivered."""
        start, joint = max(self.progress.mark, low_water_mark(mark)), None
        if self.paired is not None:
            assert self.kernel is not None
            joint = self.kernel.jointly(Marks(self._starts(), marks.joints, marks.ends))
        ends = max(marks.ends, start) if self.keeps_ends else start
        self._by_key = None
        self.progress = Progress(start, joint, ends, mark if isinstance(mark, np.ndarray) else None)

    def _starts(self) -> tuple[int, ...]:
        return tuple([i.progress.mark for i in self.inputs])

    def mark_by_key(self) -> Mark:
        """The output mark, or marks per key (see `key_marks_of`)."""
        if not self.by_pairs:
            progress = self.progress
            return progress.mark if progress.by_key is None else progress.by_key
        if self._by_key is None:
            self._by_key = key_marks_of(self, self.progress)
        return self._by_key

    # --- keys and state -------------------------------------------------------------------------------------------------

    def forgettable(self) -> Mask:
        """Slots that the kernel no longer needs."""
        assert self.kernel is not None
        return self.kernel.forgettable(Marks(self._starts()))

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the kernel holds."""
        self.take_back()
        return sum(state.nbytes for state in self.states.values())

    @property
    def waiting(self) -> int:
        """Rows that the kernel holds until progress lets go of them: an open window is one, and so is a run of samples."""
        self.take_back()
        return sum(
            len(part) for state in self.kept.values() if isinstance(state, HeldBatches) for part in state.batches
        )

    def take_back(self) -> None:
        """Hold its own state again, which its family may hold."""
        if self.family is not None:
            self.family.part()

    @property
    def shed(self) -> dict[str, int]:
        """Rows shed to stay within limits, by state name."""
        return {f"{self.digest}/{name}": state.shed for name, state in self.kept.items() if state.shed}

    # --- errors ---------------------------------------------------------------------------------------------------------

    def locate(self, error: BaseException) -> None:
        """Add the operator and the user's line to an error; if it has none, the line of its input."""
        if isinstance(error, HydrophoneError):
            node: Node | None = self.node
            while node is not None:
                error.locate(node.name(), node.where)
                node = node.inputs[0] if error.where is None and node.inputs else None


def key_marks_of(station: Station, progress: Progress) -> Mark:
    """The mark of what a station gives, or marks per key, if this is its progress.

    Joint progress (a, b) gives marks per key too: keys whose other time is before b have the mark a.
    """
    mark = progress.mark if progress.by_key is None else progress.by_key
    if not station.by_pairs or progress.joint is None or progress.joint[0] <= low_water_mark(mark):
        return mark
    assert station.paired is not None
    start, other = progress.joint
    times = station.out_keys.column(station.paired).cast(pa.int64())
    passed = times.fill_null(MAX_TIME).to_numpy(zero_copy_only=False) < other
    own = marks_by_slot(mark, len(times) + 1)
    own[:-1][passed] = np.maximum(own[:-1][passed], start)
    return own


def _port_has_no_step(port: int, batch: Batch) -> Iterable[Batch]:
    raise AssertionError("a port has no inputs")


def scope_digest(scope: Scope) -> str:
    """Identity of a scope: the names and types of its key columns.

    Examples
    --------
    >>> scope_digest((("site", "string"),)) == scope_digest((("site", "string"),)) != scope_digest((("site", "int64"),))
    True
    """
    return hashlib.sha256(json.dumps(scope).encode()).hexdigest()[:32]


def _make_key_marks(node: Node) -> Kernel | None:
    delay: Any = node.progress.per_key if isinstance(node, Port) and node.progress is not None else None
    return None if delay is None else KeyMarks(delay)
