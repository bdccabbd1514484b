"""How benchmarks are run: ours and the peers in turn in one process, medians, and answers that must agree."""

from __future__ import annotations

import gc
import hashlib
import json
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
import psutil

from hydrophone.ticker import working

Answer = Sequence[float]
"""A few numbers that stand for an answer, such as count, sum and sum of squares."""


@dataclass(frozen=True)
class Timed:
    """The answer of a peer that runs in a program of its own and has taken the time itself."""

    seconds: float
    answer: Answer


@dataclass(frozen=True)
class Case:
    """One thing that is measured: how we do it, and how each peer does it.

    Attributes
    ----------
    name : what was run, such as "slices, segments, 10000 keys"
    ours : runs it our way and gives the numbers that stand for the answer
    peers : the same by the peers' names
    runs : how often each is run; the first run of each is thrown away as a warm-up where `warm` is set
    """

    name: str
    ours: Callable[[], Answer]
    peers: Mapping[str, Callable[[], Answer | Timed]]
    runs: int = 5
    warm: bool = True


@dataclass(frozen=True)
class Turns:
    """A case that takes turns by itself, such as queries that run on and get their micro-batches one after the other.

    Attributes
    ----------
    name : what was run
    run : runs all ways and gives, for "ours" and every peer, the times that count and the answer
    """

    name: str
    run: Callable[[], Mapping[str, tuple[Sequence[float], Answer]]]


@dataclass(frozen=True)
class Result:
    """A row of the table: `ratio` is the peer's time over ours (above 1: we are faster)."""

    bench: str
    case: str
    ours_s: float
    peer: str
    peer_s: float
    ratio: float
    ours_digest: str
    peer_digest: str
    ours_peak_mb: float

    @property
    def agrees(self) -> bool:
        """Whether both gave the same answer."""
        return self.ours_digest == self.peer_digest

    def as_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))


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


def measure(bench: str, case: Case | Turns) -> Iterator[Result]:
    """Run all ways of a case in turn; a row per peer."""
    times, digests, peak = _turns(bench, case) if isinstance(case, Turns) else _runs(bench, case)
    ours = statistics.median(times["ours"])
    for name in [n for n in times if n != "ours"]:
        theirs = statistics.median(times[name])
        yield Result(
            bench,
            case.name,
            round(ours, 4),
            name,
            round(theirs, 4),
            round(theirs / ours, 3),
            digests["ours"],
            digests[name],
            round(peak, 1),
        )


def _runs(bench: str, case: Case) -> tuple[dict[str, list[float]], dict[str, str], float]:
    ways: dict[str, Callable[[], Answer | Timed]] = {"ours": case.ours, **case.peers}
    times: dict[str, list[float]] = {name: [] for name in ways}
    digests: dict[str, str] = {}
    peak = 0.0
    turns = case.runs + (1 if case.warm else 0)
    for turn in range(turns):
        for number, (name, way) in enumerate(ways.items()):
            gc.collect()
            with working(f"{bench}: {case.name}: {name}") as ticker, Peak() as memory:
                ticker.at(turn * len(ways) + number, turns * len(ways), "runs")
                start = time.perf_counter()
                answer = way()
                took = time.perf_counter() - start
            if isinstance(answer, Timed):
                took, answer = answer.seconds, answer.answer
            digests[name] = digest(answer)
            if turn or not case.warm:
                times[name].append(took)
                peak = max(peak, memory.megabytes) if name == "ours" else peak
    return times, digests, peak


def _turns(bench: str, case: Turns) -> tuple[dict[str, list[float]], dict[str, str], float]:
    with working(f"{bench}: {case.name}"), Peak() as memory:
        found = case.run()
    times = {name: list(took) for name, (took, _) in found.items()}
    return times, {name: digest(answer) for name, (_, answer) in found.items()}, memory.megabytes


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
        while not self._stop.wait(0.05):
            self._highest = max(self._highest, self._now())

    def _now(self) -> int:
        total = self._process.memory_info().rss
        for child in self._process.children(recursive=True):
            try:
                total += child.memory_info().rss
            except psutil.NoSuchProcess:
                continue
        return total
