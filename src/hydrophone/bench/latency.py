"""`latency`: from push to result at 1M samples/s, in pieces of 1,000 through a chain of five; p50 and p99, against SciPy.

Open loop: every piece has the instant at which it should be sent, and its latency counts from there. Who falls behind
pays for it in all later pieces. Each way runs in a process of its own, so that nobody who watches it takes its time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import scipy.signal

import hydrophone as hp
from hydrophone.bench.harness import Answer, Turns
from hydrophone.engine.late import drop
from hydrophone.engine.local import Live

PIECE, RATE = 1_000, 1_000_000
"""Samples in a piece, and samples a second."""
PERIOD = 1_000_000_000 // RATE
"""Nanoseconds between samples."""
WARM_UP = 200
"""Pieces that do not count."""

Samples = npt.NDArray[np.float64]
Push = Callable[[int, Samples], Samples]
"""Takes the number of a piece and its samples, gives what comes out."""

TAPS = scipy.signal.firwin(32, 0.3)
SECTIONS = scipy.signal.butter(2, (0.05, 0.2), "bandpass", output="sos")


def cases(quick: bool) -> Iterator[Turns]:
    """The median and the 99th percentile."""
    pieces = 500 if quick else 5_000
    for percent in (50, 99):
        name = f"p{percent}, {pieces} pieces of {PIECE} at {RATE} samples/s, five operators"
        yield Turns(name, partial(compare, pieces, percent), unit="ms")


def compare(pieces: int, percent: float) -> Mapping[str, tuple[Sequence[float], Answer]]:
    """Both ways, each in a process of its own."""
    found = {}
    for way in WAYS:
        command = [sys.executable, "-m", "hydrophone.bench.latency", way, str(pieces)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        latencies, answer = json.loads(done.stdout)
        found[way] = [float(np.percentile(latencies, percent))], answer
    return found


def query(first: pa.Table) -> hp.UniformSignal:
    """Five operators: two filters with memory, and three functions of samples.

    Every piece says how far its sensor is, so that none waits for the next one.
    """
    progress = hp.punctuated("mark", ahead=None)
    signal = hp.from_segments(first, key="sensor", time="ts", samples="x", period=PERIOD, progress=progress)
    return (signal.fir(TAPS) * 2.0).sos(SECTIONS).abs() + 1.0


def ours() -> Push:
    """A query in this process; every piece is a row with an array, and so is every result."""

    def table(number: int, samples: Samples) -> pa.Table:
        start = number * PIECE * PERIOD
        arrays = pa.ListArray.from_arrays(pa.array([0, len(samples)], pa.int32()), pa.array(samples))
        marks = pa.array([start + len(samples) * PERIOD])
        return pa.table({"sensor": pa.array(["a"]), "ts": pa.array([start]), "x": arrays, "mark": marks})

    live = Live(query(table(0, np.zeros(1))).node, drop())

    def push(number: int, samples: Samples) -> Samples:
        live.rows(0, table(number, samples))
        live.advance()
        found = [piece["values"].combine_chunks().flatten().to_numpy() for piece in live.pieces("segments")]
        return np.concatenate(found) if found else np.zeros(0)

    return push


def by_hand() -> Push:
    """The same five calls of NumPy and SciPy, with the state of the filters carried along."""
    taps, sections = np.zeros(len(TAPS) - 1), np.zeros((len(SECTIONS), 2))

    def push(number: int, samples: Samples) -> Samples:
        nonlocal taps, sections
        smooth, taps = scipy.signal.lfilter(TAPS, 1.0, samples, zi=taps)
        band, sections = scipy.signal.sosfilt(SECTIONS, smooth * 2.0, zi=sections)
        return np.abs(band) + 1.0

    return push


WAYS: dict[str, Callable[[], Push]] = {"ours": ours, "SciPy": by_hand}


def latencies(push: Push, pieces: int) -> tuple[list[float], Answer]:
    """Milliseconds from the intended send time to the result of every piece, and what came out in all."""
    samples = np.random.default_rng(1).normal(size=(16, PIECE))
    took, count, total = [], 0, 0.0
    start = time.perf_counter() + 0.01
    for number in range(WARM_UP + pieces):
        if number == WARM_UP:  # nobody pays for what was slow before
            start = time.perf_counter() + 0.01 - number * PIECE / RATE
        due = start + number * PIECE / RATE
        while (left := due - time.perf_counter()) > 0:
            time.sleep(left / 2 if left > 0.0005 else 0)
        out = push(number, samples[number % len(samples)])
        took.append((time.perf_counter() - due) * 1e3)
        count, total = count + len(out), total + float(out.sum())
    return took[WARM_UP:], (count, total)


if __name__ == "__main__":
    print(json.dumps(latencies(WAYS[sys.argv[1]](), int(sys.argv[2]))))
