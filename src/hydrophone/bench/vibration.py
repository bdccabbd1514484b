"""`vibration`: machines with three axes at 25.6 kHz in Parquet files; band-pass, envelope, spectra and a score per machine.

Every way runs in a fresh process, as a script would: reading, computing and the memory above what the imports take.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from hydrophone.bench.harness import Answer, Case, Timed, summary
from hydrophone.model.timebase import Timebase, Timebases

RATE, AXES = 25_600, ("x", "y", "z")
BAND, TAPS, SIZE = (1_000, 9_000), 65, 4096
Array = npt.NDArray[Any]


def write_lake(folder: Path, machines: int, seconds: float) -> None:
    """A file per machine, as gateways upload them: noise, a tone of the shaft, and clicks of a bearing in some."""
    count = int(RATE * seconds)
    base = Timebases.shared(Timebase.every(f"{RATE / 1000}kHz"))
    times = base.times(np.zeros(count, np.int64), np.arange(count))
    for machine in range(machines):
        rng = np.random.default_rng(machine)
        values = rng.normal(size=(3, count)).astype(np.float32)
        values += np.sin(2 * np.pi * 50 * np.arange(count) / RATE).astype(np.float32)
        if machine % 7 == 3:
            values[:, :: RATE // 120] += 12
        columns = {"machine": np.full(count, machine), "ts": times, **dict(zip(AXES, values, strict=True))}
        pq.write_table(pa.table(columns), folder / f"machine-{machine:04d}.parquet", row_group_size=1 << 17)


def lines(spectra: Array) -> Array:
    """How far the strongest line of the envelope between 60 and 600 Hz stands above the mean there, per axis."""
    low, high = int(60 * SIZE / RATE), int(600 * SIZE / RATE)
    band = spectra[:, low:high]
    return (band.max(axis=1) / band.mean(axis=1))[:, None]


def ours(folder: str) -> Answer:
    """One query."""
    import hydrophone as hp

    signal = hp.read.parquet(folder, key="machine", time="ts").signal(*AXES).sample(f"{RATE / 1000}kHz")
    spectra = signal.bandpass(*BAND).envelope(TAPS).spectrogram(SIZE, hop=SIZE // 2)
    found = spectra.map(lines).to_arrow()
    values = [chunk.values.to_numpy() for n in range(len(AXES)) for chunk in found[f"values_{n}"].chunks]
    return summary(np.concatenate(values))


def _machine(path: str) -> Array:
    """The scores of one file, as a SciPy user writes it."""
    import scipy.signal

    half = TAPS // 2
    n = np.arange(-half, half + 1)
    with np.errstate(divide="ignore"):
        taps = (n == 0) + 1j * np.where(n % 2 == 1, 2 / (np.pi * n), 0) * np.kaiser(TAPS, 6)
    sections = scipy.signal.butter(4, BAND, "band", fs=RATE, output="sos")
    table = pq.read_table(path)
    found = []
    for axis in AXES:
        x = scipy.signal.sosfilt(sections, table[axis].to_numpy().astype(np.float64))
        envelope = np.abs(scipy.signal.oaconvolve(x, taps, "valid"))
        first = -half % (SIZE // 2)  # windows lie on the absolute grid, and the envelope begins `half` samples late
        _, _, power = scipy.signal.spectrogram(envelope[first:], RATE, "hann", SIZE, SIZE // 2)
        found.append(lines(power.T))
    return np.concatenate(found)


def loop(folder: str) -> Answer:
    """File by file."""
    return summary(np.concatenate([_machine(str(p)) for p in sorted(Path(folder).glob("*.parquet"))]))


def pool(folder: str) -> Answer:
    """The same in two processes."""
    with ProcessPoolExecutor(2) as workers:
        found = list(workers.map(_machine, [str(p) for p in sorted(Path(folder).glob("*.parquet"))]))
    return summary(np.concatenate(found))


WAYS: dict[str, Callable[[str], Answer]] = {"ours": ours, "SciPy loop": loop, "SciPy loop, two processes": pool}


def fresh(way: str, folder: str, warm: int) -> Timed:
    """A way in a process of its own: the last of its runs, after `warm` others."""
    run = subprocess.run(
        [sys.executable, "-m", __name__, way, folder, str(warm)], capture_output=True, text=True, check=True
    )
    found = json.loads(run.stdout.splitlines()[-1])
    print(f"{way}: {found['megabytes']:.0f} MB above the imports", file=sys.stderr)
    return Timed(found["seconds"], found["answer"])


def cases(quick: bool) -> Iterator[Case]:
    """A fresh process, and the second run in one."""
    machines, seconds = (8, 4.0) if quick else (50, 10.0)
    with tempfile.TemporaryDirectory() as folder:
        write_lake(Path(folder), machines, seconds)
        for title, warm in (("fresh", 0), ("warm", 1)):
            ways = {name: partial(fresh, name, folder, warm) for name in WAYS}
            mine: Any = ways.pop("ours")
            yield Case(f"{title} process, {machines * 3} axes of {seconds:g} s", mine, ways, runs=3)


def main() -> None:
    """Run one way and say what it took."""
    import time

    way, folder, warm = sys.argv[1], sys.argv[2], int(sys.argv[3])
    import scipy.signal  # noqa: F401  # both need it

    import hydrophone  # noqa: F401

    def peak() -> float:
        """Megabytes. What `getrusage` says begins with the memory of the process that started this one."""
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e3

    before = peak()
    for _ in range(warm + 1):
        start = time.perf_counter()
        answer = WAYS[way](folder)
        seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "megabytes": peak() - before, "answer": list(map(float, answer))}))


if __name__ == "__main__":
    main()
