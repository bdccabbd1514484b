"""Load shedding: how large a share of the rows is left out, when a graph cannot keep up or is told to."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import pyarrow as pa

from hydrophone.engine.ingest import instants
from hydrophone.errors import ParameterError, located
from hydrophone.model.row_hash import kept_rows, row_hashes
from hydrophone.model.time import Duration, duration
from hydrophone.plan.parameters import real, whole
from hydrophone.plan.source import Source

Strategy = Literal["global", "straggler", "tolerance"]
"""Where rows are left out: at the source, in the query that costs most, or in those that tolerate most."""

STEP = 1 / 256
"""Adaptive factors are multiples of this."""
RECOVERY = 1.05
"""How much more is kept after a turn without congestion."""
MOST_CHANGES = 65_536
"""Changes of a factor that are remembered."""
FULL_QUEUE = 2.0
"""A queue without room counts as twice the delay that is aimed at, at least."""


class Controller(Protocol):
    """Gives the factor of every turn."""

    def next(self, load: float | None) -> float:
        """The factor of the turn that begins, given the congestion: 1 is what is aimed at, None is unknown."""


@dataclass(frozen=True)
class Shed:
    """A policy for shedding.

    Attributes
    ----------
    factor : the share of rows that is shed, where it is fixed
    target : the delay in queues that is aimed at, in nanoseconds, where the factor follows congestion
    most : the largest factor
    strategy : where rows are left out
    changes : row numbers and factors of an earlier run
    """

    factor: float = 0.0
    target: int | None = None
    most: float = 1.0
    strategy: Strategy = "global"
    changes: tuple[tuple[int, float], ...] = ()

    def controller(self) -> Controller:
        """What gives the factors of a source."""
        return _Fixed(self.factor) if self.target is None else _Adaptive(self.most)


@located
def fixed(factor: float, *, strategy: Strategy = "global") -> Shed:
    """Leave out a fixed share of the rows.

    A row is left out by a hash of its source's name, key, time and sequence: the same rows in every run and on every engine, and a
    larger factor leaves out these and more. Rows that are left out still count for progress.

    Parameters
    ----------
    factor : float
        Between 0 and 1: the share of rows that is left out, on average.
    strategy : str
        ``"global"``: at the sources, for all queries. ``"straggler"``: in the query whose own operators cost most time.
        ``"tolerance"``: in the queries that tolerate most (``subscribe(..., tolerance=...)``), so that on average the factor is this.

    Examples
    --------
    >>> fixed(0.25).factor
    0.25
    """
    return Shed(_share(factor, "shed.fixed: factor"), strategy=_strategy(strategy, "shed.fixed"))


@located
def adaptive(target: Duration, *, most: float = 0.95, strategy: Strategy = "global") -> Shed:
    """Leave out as many rows as it takes for a source that comes by the clock to wait no longer than `target` in its queue.

    Every turn looks at how long its rows have waited: after too long a wait a smaller share is kept, otherwise slowly a larger one.
    For sources that are read in a thread of their own; one that gives rows as fast as they are taken always fills its queue.

    Parameters
    ----------
    target : duration
        How long rows may wait, such as ``"50ms"``.
    most : float
        The largest share that is left out.
    strategy : as in `fixed`

    Examples
    --------
    >>> adaptive("50ms").target
    50000000
    """
    wait = duration(target)
    if wait <= 0:
        raise ParameterError(f"shed.adaptive: target must be positive, got {target!r}", hint='target="50ms"')
    largest = _share(most, "shed.adaptive: most")
    return Shed(target=wait, most=largest, strategy=_strategy(strategy, "shed.adaptive"))


@located
def pinned(changes: Iterable[tuple[int, float]]) -> Shed:
    """Leave out what an earlier run has left out: pairs of a row number and the factor from there on (`Graph.shed_factors`).

    Examples
    --------
    >>> pinned([(0, 0.0), (5000, 0.25)]).changes
    ((0, 0.0), (5000, 0.25))
    """
    try:
        pairs = [(row, factor) for row, factor in changes]
    except (TypeError, ValueError):
        raise ParameterError(
            f"shed.pinned: changes must be pairs of a row number and a factor, got {changes!r}",
            hint="what graph.shed_factors(source) gives",
        ) from None
    given = tuple((whole(row, "shed.pinned: a row number"), _share(f, "shed.pinned: factor")) for row, f in pairs)
    if [row for row, _ in given] != sorted({row for row, _ in given}):
        raise ParameterError("shed.pinned: row numbers must rise")
    return Shed(changes=given)


class _Fixed:
    def __init__(self, factor: float) -> None:
        self._factor = factor

    def next(self, load: float | None) -> float:
        return self._factor


class _Adaptive:
    """Keeps less at once, and more step by step.

    Examples
    --------
    >>> adapting = _Adaptive(0.95)
    >>> [round(adapting.next(load), 2) for load in (0.5, 4.0, 4.0, 0.5, 0.5)]
    [0.0, 0.5, 0.75, 0.73, 0.71]
    """

    def __init__(self, most: float) -> None:
        self._kept, self._least = 1.0, 1 - most

    def next(self, load: float | None) -> float:
        if load is not None:
            changed = self._kept * max(0.5, 1 / load) if load > 1 else self._kept * RECOVERY + STEP
            self._kept = min(1.0, max(self._least, changed))
        return round((1 - self._kept) / STEP) * STEP


class SourceShedding:
    """What is left out of the rows of one source.

    Attributes
    ----------
    policy : what decides; None: nothing is left out
    factor : of the turn that runs
    skipped : how many rows were left out
    changes : at which row of the source the factor has changed, and to what
    """

    def __init__(self, source: Source, policy: Shed | None) -> None:
        self._layout, self._name = source.layout, source.label or ""
        self.factor, self.skipped = 0.0, 0
        self.changes: deque[tuple[int, float]] = deque(maxlen=MOST_CHANGES)
        self.use(policy)

    def use(self, policy: Shed | None) -> None:
        """From the next turn on, another policy decides."""
        self.policy = policy
        self._controller = None if policy is None else policy.controller()

    def load(self, delay: float | None, full: bool) -> float | None:
        """The congestion of a queue: how long rows have waited, in targets."""
        if delay is None or self.policy is None or self.policy.target is None:
            return None
        found = delay * 1e9 / self.policy.target
        return max(found, FULL_QUEUE) if full else found

    def begin_turn(self, row: int, load: float | None, most: float) -> tuple[Strategy, float] | None:
        """Pin the factor of the turn whose first row has this number, given the congestion and what its readers tolerate.

        Where rows are to be left out of some queries alone, return how, and the factor.
        """
        if self.policy is not None and self.policy.changes:
            return None  # the rows are cut where it has changed
        factor = 0.0 if self._controller is None else self._controller.next(load)
        if self.policy is not None and self.policy.strategy != "global":
            self._pin(0.0, row)
            return self.policy.strategy, factor
        self._pin(min(most, factor), row)
        return None

    def _pin(self, factor: float, row: int) -> None:
        if factor != self.factor:
            self.changes.append((row, factor))
        self.factor = factor

    def pieces(self, table: pa.Table, row: int) -> Iterator[pa.Table]:
        """The rows, the first of which is the source's row of that number, cut where an earlier run has changed its factor."""
        steps: Sequence[tuple[int, float]] = self.policy.changes if self.policy is not None else ()
        if not steps:
            yield table
            return
        start, end = row, row + len(table)
        while start < end:
            at = bisect_right(steps, start, key=lambda step: step[0])
            stop = min(end, steps[at][0]) if at < len(steps) else end
            self._pin(steps[at - 1][1] if at else 0.0, start)
            yield table.slice(start - row, stop - start)
            start = stop

    def split(self, table: pa.Table) -> pa.Table:
        """The rows that stay. Those that are there for a mark alone have no time, and stay."""
        if self.factor <= 0 or not len(table):
            return table
        layout = self._layout
        time = table[layout.time]
        timed = table if not time.null_count else table.filter(time.is_valid())
        sequence = None if layout.sequence is None else timed[layout.sequence]
        hashes = row_hashes(
            self._name, [timed[k] for k in layout.key], instants(timed[layout.time], layout.time), sequence
        )
        kept = kept_rows(hashes, self.factor)
        gone = len(kept) - int(kept.sum())
        if not gone:
            return table
        self.skipped += gone
        if timed is table:
            return table.filter(pa.array(kept))
        mask = time.is_null().to_numpy(zero_copy_only=False).copy()
        mask[~mask] = kept
        return table.filter(pa.array(mask))


def _share(value: float, what: str) -> float:
    share = real(value, what, "between 0 and 1")
    if not 0 <= share <= 1:
        raise ParameterError(f"{what} must be between 0 and 1, got {value!r}")
    return share


def _strategy(value: Strategy, what: str) -> Strategy:
    if not isinstance(value, str) or value not in ("global", "straggler", "tolerance"):
        raise ParameterError(f"{what}: strategy must be 'global', 'straggler' or 'tolerance', got {value!r}")
    return value


def check_shed(policy: object, what: str) -> None:
    """Refuse what is no policy for shedding."""
    if policy is not None and not isinstance(policy, Shed):
        raise ParameterError(
            f"{what}: shed must be a policy, got {policy!r}",
            hint='one of hp.shed.fixed(0.25), hp.shed.adaptive("50ms"), hp.shed.pinned([...])',
        )


__all__ = ["Shed", "adaptive", "fixed", "pinned"]
