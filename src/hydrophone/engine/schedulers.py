"""Schedulers: where buffers stand in a graph, and which region runs next."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from hydrophone.engine.buffers import Edge, Region
from hydrophone.engine.orders import Crew, Least, Shares, Successors, by_age, by_chain, by_turns
from hydrophone.engine.resources import MOST_THREADS
from hydrophone.engine.stations import Station
from hydrophone.errors import ParameterError
from hydrophone.model.time import Duration, duration
from hydrophone.plan.node import Node
from hydrophone.plan.parameters import byte_count, whole

BUFFER = "64 MB"
"""What one buffer may hold."""


class Planned(Protocol):
    """A stream or signal, as far as schedulers look at it."""

    @property
    def node(self) -> Node:
        """What makes it."""


@dataclass(frozen=True)
class Scheduler:
    """How the operators of a graph take turns: the base of all schedulers.

    A scheduler cuts edges of the plan, and a buffer stands on each edge that is cut. What is joined by edges that are not cut is a
    region, and runs as one operator. Every scheduler gives the same rows.
    """

    @property
    def threaded(self) -> bool:
        """Whether operators run in threads of the graph. Then results come after `push`; `Graph.flush` waits for them."""
        return False

    @property
    def limit(self) -> int:
        """Bytes above which a buffer is full."""
        return byte_count(getattr(self, "buffer", BUFFER), f"{type(self).__name__}: buffer")

    def cuts(self, stations: Mapping[Node, Station]) -> set[Edge]:
        """The edges with a buffer: all."""
        return {(node, port) for node, station in stations.items() for port in range(len(station.inputs))}

    def crews(self, regions: Sequence[Region]) -> list[Crew]:
        """Who runs these regions."""
        raise NotImplementedError

    def _check(self) -> None:
        self.limit  # noqa: B018  an error where it makes no sense


@dataclass(frozen=True)
class DepthFirst(Scheduler):
    """Without buffers: what an operator gives goes through all that read it before the operator goes on. The default.

    Examples
    --------
    >>> import hydrophone as hp
    >>> graph = hp.Graph(scheduler=hp.DepthFirst())
    """

    def cuts(self, stations: Mapping[Node, Station]) -> set[Edge]:
        """None."""
        return set()

    def crews(self, regions: Sequence[Region]) -> list[Crew]:
        """Nothing waits."""
        return []


DEPTH_FIRST = DepthFirst()


@dataclass(frozen=True)
class Fifo(Scheduler):
    """A buffer in front of every operator; what has waited longest runs next. In the thread that brings the rows.

    Parameters
    ----------
    time_slice : optional
        How long an operator goes on while something waits for it; then the operator runs that ran least recently. By default it
        takes one batch or mark.
    buffer : what one buffer may hold

    Examples
    --------
    >>> import hydrophone as hp
    >>> graph = hp.Graph(scheduler=hp.Fifo(time_slice="1ms", buffer="16 MB"))
    """

    time_slice: Duration | None = None
    buffer: int | str = BUFFER

    def __post_init__(self) -> None:
        self._check()
        if self.time_slice is not None:
            _seconds(self.time_slice, "Fifo: time_slice")

    def crews(self, regions: Sequence[Region]) -> list[Crew]:
        """One."""
        if self.time_slice is None:
            return [Crew(regions, Least(by_age))]
        return [Crew(regions, Least(by_turns), budget=_seconds(self.time_slice, "Fifo: time_slice"))]


@dataclass(frozen=True)
class RunToCompletion(Scheduler):
    """A buffer in front of every operator; an operator takes all that waits for it, and then one that reads it runs.

    In the thread that brings the rows.

    Parameters
    ----------
    buffer : what one buffer may hold

    Examples
    --------
    >>> import hydrophone as hp
    >>> graph = hp.Graph(scheduler=hp.RunToCompletion())
    """

    buffer: int | str = BUFFER

    def __post_init__(self) -> None:
        self._check()

    def crews(self, regions: Sequence[Region]) -> list[Crew]:
        """One."""
        return [Crew(regions, Successors(), budget=None)]


@dataclass(frozen=True)
class OperatorThreads(Scheduler):
    """A buffer in front of every operator, and a thread for each.

    Parameters
    ----------
    buffer : what one buffer may hold

    Examples
    --------
    >>> import hydrophone as hp
    >>> rows = hp.from_numpy([1.0, 2.0, 3.0], rate=10)
    >>> with hp.Graph(scheduler=hp.OperatorThreads()) as graph:
    ...     found = list(graph.cursor(rows.fir([0.5, 0.5])))
    >>> len(found)
    1
    """

    buffer: int | str = BUFFER

    def __post_init__(self) -> None:
        self._check()

    @property
    def threaded(self) -> bool:
        """Yes."""
        return True

    def crews(self, regions: Sequence[Region]) -> list[Crew]:
        """One for each region."""
        return [Crew([region], Least(by_turns), threads=1, budget=None) for region in regions]


STRATEGIES: dict[str, Any] = {"round_robin": by_turns, "chain": by_chain}


@dataclass(frozen=True)
class GraphThread(Scheduler):
    """A buffer in front of every operator, and one thread for all of them.

    Parameters
    ----------
    strategy : "round_robin": each operator in turn takes one batch or mark. "chain": first the operators that make what waits
        smaller fastest, as measured: so that the buffers hold least.
    buffer : what one buffer may hold

    Examples
    --------
    >>> import hydrophone as hp
    >>> graph = hp.Graph(scheduler=hp.GraphThread("chain"))
    >>> graph.close()
    """

    strategy: Literal["round_robin", "chain"] = "round_robin"
    buffer: int | str = BUFFER

    def __post_init__(self) -> None:
        self._check()
        if not isinstance(self.strategy, str) or self.strategy not in STRATEGIES:
            raise ParameterError(
                f"GraphThread: strategy must be one of {', '.join(map(repr, STRATEGIES))}, got {self.strategy!r}"
            )

    @property
    def threaded(self) -> bool:
        """Yes."""
        return True

    def crews(self, regions: Sequence[Region]) -> list[Crew]:
        """One."""
        return [Crew(regions, Least(STRATEGIES[self.strategy]), threads=1)]


@dataclass(frozen=True)
class Hybrid(Scheduler):
    """Few buffers, and few threads, which go to the regions by their weight: see `Graph.priority`.

    A region that has had less time for its weight comes first, so that none waits for ever. A region that runs is not interrupted
    in the middle of a batch.

    Parameters
    ----------
    before : optional
        Streams: a buffer stands in front of the operators that make them. By default the graph finds the places itself, from
        what it measures: around operators that take much of the time, if the rate rises by it.
    threads : how many regions run at the same time; by default as many as there are cores, and at least two
    time_slice : how long a region goes on while something waits for it
    buffer : what one buffer may hold

    Examples
    --------
    >>> import hydrophone as hp
    >>> rows = hp.from_numpy([1.0, 2.0, 3.0], rate=10)
    >>> smooth = rows.fir([0.5, 0.5])
    >>> with hp.Graph(scheduler=hp.Hybrid(before=[smooth], threads=2)) as graph:
    ...     found = list(graph.cursor(smooth.abs()))
    >>> len(found)
    1
    """

    before: Sequence[Planned] | None = None
    threads: int | None = None
    time_slice: Duration = "5ms"
    buffer: int | str = BUFFER

    def __post_init__(self) -> None:
        self._check()
        _seconds(self.time_slice, "Hybrid: time_slice")
        if self.threads is not None and not 1 <= whole(self.threads, "Hybrid: threads") <= MOST_THREADS:
            raise ParameterError(f"Hybrid: threads must be between 1 and {MOST_THREADS}, got {self.threads}")
        if self.before is not None:
            if not isinstance(self.before, list | tuple):
                raise ParameterError(f"Hybrid: before takes a list of streams, got {self.before!r}")
            object.__setattr__(self, "before", tuple(_query(x) for x in self.before))

    @property
    def threaded(self) -> bool:
        """Yes."""
        return True

    def cuts(self, stations: Mapping[Node, Station]) -> set[Edge]:
        """None of its own: the graph knows which operators `before` means, and what placement has found."""
        return set()

    def crews(self, regions: Sequence[Region]) -> list[Crew]:
        """One with all threads."""
        threads = max(2, os.cpu_count() or 1) if self.threads is None else self.threads
        return [Crew(regions, Shares(), threads, _seconds(self.time_slice, "Hybrid: time_slice"))]


def _query(found: Any) -> Any:
    if not isinstance(getattr(found, "node", None), Node):
        raise ParameterError(f"Hybrid: before takes a list of streams, got {found!r} in it")
    return found


def _seconds(value: Duration, what: str) -> float:
    found = duration(value)
    if found < 0:
        raise ParameterError(f"{what} must not be negative, got {value!r}")
    return found / 1e9


def check_scheduler(found: Any) -> Scheduler:
    """The user's scheduler, by default depth first."""
    if found is None:
        return DEPTH_FIRST
    if not isinstance(found, Scheduler) or type(found) is Scheduler:
        names = ", ".join(f"hp.{one.__name__}()" for one in Scheduler.__subclasses__())
        raise ParameterError(f"Graph: scheduler must be a scheduler, got {found!r}", hint=f"there are: {names}")
    return found
