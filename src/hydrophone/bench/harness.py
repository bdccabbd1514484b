"""How benchmarks are run: ours and the peers in turn in one process, medians, and answers that must agree."""

from __future__ import annotations

import gc
import hashlib
import json
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field

import numpy as np
import numpy.typing as npt
import psutil
from scipy.special import stdtrit

from hydrophone.cli.progress_bar import working

Answer = Sequence[float]
"""A few numbers that stand for an answer, such as count, sum and sum of squares."""


@dataclass(frozen=True)
class Timed:
    """The answer of a peer that runs in a program of its own and has taken the time itself."""

    seconds: float
    answer: Answer


@dataclass(frozen=True)
class Unchecked:
    """A result whose numbers are taken after the clock has stopped, where to sum it up would take as long as to make it."""

    answer: Callable[[], Answer]


@dataclass(frozen=True)
class Case:
    """One thing that is measured: how we do it, and how each peer does it.

    Attributes
    ----------
    name : what was run, such as "slices, segments, 10000 keys"
    ours : runs it our way and gives the numbers that stand for the answer
    peers : the same by the peers' names
    runs : how often each is run; the first run of each is thrown away as a warm-up where `warm` is set
    also : further ways of ours by the names of their cases, in the same turns and against the same peers
    pick : which of the runs counts: the median, or for short calls on a shared machine the fastest (``min``)
    settled : whether `settle` comes before every run; not needed where the fastest counts, and it takes longer than short calls
    """

    name: str
    ours: Callable[[], Answer | Unchecked]
    peers: Mapping[str, Callable[[], Answer | Timed | Unchecked]]
    runs: int = 5
    warm: bool = True
    also: Mapping[str, Callable[[], Answer | Unchecked]] = field(default_factory=dict)
    pick: Callable[[Sequence[float]], float] = statistics.median
    settled: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """Of all ways of ours."""
        return self.name, *self.also


Measured = Mapping[str, tuple[Sequence[float], Answer]]
"""For "ours" and every peer, the times that count and the answer."""


def in_turn(ways: Mapping[str, Callable[[], tuple[float, Answer]]], trials: int) -> Measured:
    """Ways that measure themselves, in turn: what else the machine does meets all of them. The first turn warms up and does not count."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    answers: dict[str, Answer] = {}
    for trial in range(trials + 1):
        for name, way in ways.items():
            took, answers[name] = way()
            if trial:
                found[name].append(took)
    return {name: (times, answers[name]) for name, times in found.items()}


@dataclass(frozen=True)
class Turns:
    """A case that takes turns by itself, such as queries that run on and get their micro-batches one after the other.

    Attributes
    ----------
    name : what was run
    run : runs all ways and gives, for "ours" and every peer, the times that count and the answer
    unit : what is measured, where it is not seconds
    """

    name: str
    run: Callable[[], Measured]
    unit: str = "s"

    @property
    def names(self) -> tuple[str, ...]:
        """Of the one way of ours."""
        return (self.name,)


@dataclass(frozen=True)
class Result:
    """A row of the table: `ratio` is the peer's time over ours (above 1: we are faster).

    Where `unit` is not "s", `ours_s` and `peer_s` are in that unit; less is better all the same. `ours_95` and `peer_95` are half the
    width of the 95 % interval of the mean, where there were enough runs.
    """

    bench: str
    case: str
    ours_s: float
    peer: str
    peer_s: float
    ratio: float
    ours_digest: str
    peer_digest: str
    ours_peak_mb: float
    peer_peak_mb: float
    unit: str = "s"
    ours_95: float | None = None
    peer_95: float | None = None

    @property
    def agrees(self) -> bool:
        """Whether both gave the same answer."""
        return self.ours_digest == self.peer_digest

    def as_json(self) -> str:
        """One line; seconds go without saying."""
        usual = {"unit": "s", "ours_95": None, "peer_95": None}
        return json.dumps(
            {name: value for name, value in asdict(self).items() if name not in usual or value != usual[name]}
        )


def digest(answer: Answer) -> str:
    """Text that is equal for answers that agree to six digits."""
    rounded = ",".join(f"{float(x):.5e}" for x in answer)
    return hashlib.sha256(rounded.encode()).hexdigest()[:12]


def summary(values: npt.NDArray[np.inexact]) -> Answer:
    """Count, sum of magnitudes and sum of squares."""
    size = np.abs(values.reshape(-1))
    total = float(size.sum())
    # Not by a dot product: its threads wait for each other where other processes use the cores.
    return len(size), total, float(np.square(size, out=size).sum())


@dataclass(frozen=True)
class Taken:
    """What the runs of one way took: seconds, the answer, and the largest memory in megabytes."""

    seconds: Sequence[float]
    digest: str
    peak: float


def measure(bench: str, case: Case | Turns, clock: Callable[[], float] = time.perf_counter) -> Iterator[Result]:
    """Run all ways of a case in turn; a row for each of ours and every peer.

    With ``time.process_time`` as the clock the processor time of all threads counts, which other programs hardly change.
    """
    ours, peers = _turns(bench, case) if isinstance(case, Turns) else _runs(bench, case, clock)
    pick = statistics.median if isinstance(case, Turns) else case.pick
    for name, mine in ours.items():
        for peer, other in peers.items():
            took, theirs = pick(mine.seconds), pick(other.seconds)
            yield Result(
                bench,
                name,
                round(took, 4),
                peer,
                round(theirs, 4),
                round(theirs / took, 3),
                mine.digest,
                other.digest,
                round(mine.peak, 1),
                round(other.peak, 1),
                case.unit if isinstance(case, Turns) else "s",
                interval(mine.seconds),
                interval(other.seconds),
            )


def interval(values: Sequence[float]) -> float | None:
    """Half the width of the 95 % interval of the mean by Student's t; None for fewer than five values.

    Examples
    --------
    >>> interval([1.0, 2.0, 3.0, 4.0, 5.0]), interval([1.0])
    (1.9632, None)
    """
    if len(values) < 5:
        return None
    error = statistics.stdev(values) / len(values) ** 0.5
    return round(float(stdtrit(len(values) - 1, 0.975)) * error, 4)


def _runs(bench: str, case: Case, clock: Callable[[], float]) -> tuple[dict[str, Taken], dict[str, Taken]]:
    ours, peers = {case.name: case.ours, **case.also}, case.peers
    ways: list[tuple[str, Callable[[], Answer | Timed | Unchecked]]] = [*ours.items(), *peers.items()]
    seconds: list[list[float]] = [[] for _ in ways]
    digests, peaks = [""] * len(ways), [0.0] * len(ways)
    turns = case.runs + (1 if case.warm else 0)
    for turn in range(turns):
        for number, (name, way) in enumerate(ways):
            watched = turn == 0
            if case.settled:
                settle(max(peaks))
            # Who watches the memory takes time from who is timed.
            with working(f"{bench}: {case.name}: {name}") as ticker, Peak() if watched else nullcontext() as memory:
                ticker.at(turn * len(ways) + number, turns * len(ways), "runs")
                start = clock()
                answer = way()
                took = clock() - start
            if isinstance(answer, Timed):
                took, answer = answer.seconds, answer.answer
            elif isinstance(answer, Unchecked):
                answer = answer.answer()
            digests[number] = digest(answer)
            if memory:
                peaks[number] = memory.megabytes
            if turn or not case.warm:
                seconds[number].append(took)
    taken = {name: Taken(seconds[i], digests[i], peaks[i]) for i, (name, _) in enumerate(ways)}
    return {n: taken[n] for n in ours}, {n: taken[n] for n in peers}


def settle(megabytes: float) -> None:
    """Before a turn: no garbage is left, and as much memory as the hungriest way takes is at hand, from 100 MB up to a gigabyte.

    A virtual machine gives unused memory back to its host within seconds. Who runs first after a pause then waits for it,
    longer than some works take.
    """
    gc.collect()
    np.ones(int(min(max(megabytes, 100), 1000) * 1e6), np.uint8)


def _turns(bench: str, case: Turns) -> tuple[dict[str, Taken], dict[str, Taken]]:
    with working(f"{bench}: {case.name}"), Peak() as memory:
        found = case.run()
    taken = {name: Taken(seconds, digest(answer), memory.megabytes) for name, (seconds, answer) in found.items()}
    return {case.name: taken.pop("ours")}, taken


class Peak:
    """The largest memory of this process and its children while something runs, in megabytes above the start."""

    def __enter__(self) -> Peak:
        self._process = psutil.Process()
        self._start = self._highest = self._now()
        self._stop = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._watcher.join()

    @property
    def megabytes(self) -> float:
        """The growth."""
        return (self._highest - self._start) / 1e6

    def _watch(self) -> None:
        pause = 0.001  # Longer and longer: what is over soon is seen, and what takes long is not disturbed.
        while not self._stop.wait(pause):
            self._highest = max(self._highest, self._now())
            pause = min(1.2 * pause, 0.05)

    def _now(self) -> int:
        total = self._process.memory_info().rss
        for child in self._process.children(recursive=True):
            try:
                total += child.memory_info().rss
            except psutil.NoSuchProcess:
                continue
        return total
