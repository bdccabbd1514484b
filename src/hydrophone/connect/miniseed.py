"""MiniSEED files as a source of uniform signals, through libmseed."""

from __future__ import annotations

import mmap
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from hydrophone.connect.files import File
from hydrophone.connect.recording import Recording, Track, library, period_of
from hydrophone.connect.seismic import SeismicData
from hydrophone.errors import DataError

_DTYPES = {1: np.int32, 3: np.int32, 4: np.float32, 5: np.float64, 10: np.int32, 11: np.int32}
"""By the encoding of a record: integers of 16 and 32 bits, floats, Steim 1 and 2."""
_OLD_DTYPES = {12: np.int32, 13: np.float32, 14: np.float32, 16: np.int32, 30: np.int32, 32: np.int32, 33: np.float32}
_TEXT = 0


@dataclass(frozen=True, eq=False)
class MiniseedData(SeismicData):
    """Samples of MiniSEED records of version 2 and 3.

    A record goes on from the one before it of its channel where it starts no more than half a period off, as libmseed has it.
    Else there is a gap or an overlap, and a run of its own begins.
    """

    kind = "miniseed"
    suffixes = (".mseed", ".miniseed", ".ms", ".mseed3")
    library, extra = "pymseed", "seismic"
    failures = (OSError, RuntimeError, ValueError)

    snap: bool = False
    """Whether starts move to the nearest sample of the grid through the epoch."""

    @property
    def options(self) -> str:
        """The grid too."""
        return f"{super().options}, snap={self.snap}"

    def open(self, path: str) -> MiniseedFile:
        """Look at the header of every record; known files are not looked at again."""
        return MiniseedFile(self, path)


@dataclass
class _Run:
    """Records without a gap between them."""

    source: str
    period: Fraction
    start: int
    dtype: np.dtype[Any]
    offsets: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    firsts: list[int] = field(default_factory=list)
    frames: int = 0

    def goes_on(self, period: Fraction, start: int, dtype: np.dtype[Any]) -> bool:
        if period is not self.period and period != self.period:
            return False
        # In whole numbers, as there is a call for every record: the start against start + frames * num / den.
        num, den = period.as_integer_ratio()
        return dtype == self.dtype and abs((start - self.start) * den - self.frames * num) * 2 <= num


class MiniseedFile(Recording):
    """One file."""

    def __init__(self, data: MiniseedData, path: str) -> None:
        self.runs = _runs(File.of(path))
        self.file = open(path, "rb")  # noqa: SIM115  (closed by `close`)
        self.tracks = tuple(_track(run, data.snap) for run in self.runs)

    def read(self, track: int, start: int, stop: int) -> npt.NDArray[Any]:
        """Decode the records that hold these frames."""
        record = library("pymseed", "seismic", "read.miniseed").MS3Record
        run, found = self.runs[track], []
        first = at = bisect_right(run.firsts, start) - 1
        while at < len(run.firsts) and run.firsts[at] < stop:
            self.file.seek(run.offsets[at])
            decoded = record.parse(self.file.read(run.sizes[at]), unpack_data=True)
            found.append(np.array(decoded.np_datasamples))
            at += 1
        samples = np.concatenate(found).astype(run.dtype, copy=False)
        return samples[start - run.firsts[first] : stop - run.firsts[first]]

    def close(self) -> None:
        """Close it."""
        self.file.close()


def _track(run: _Run, snap: bool) -> Track:
    network, station, location, channel = library("pymseed", "seismic", "read.miniseed").sourceid2nslc(run.source)
    start = run.start
    if snap:
        near = round(start / run.period)
        start = int(near * run.period // 1)
    return Track((network, station, location, channel), run.period, start, run.frames, run.dtype)


@lru_cache(maxsize=64)
def _runs(file: File) -> tuple[_Run, ...]:
    """The runs of a file; ranges of one file are read one after the other, and its records need not be found for each."""
    open_runs: dict[str, _Run] = {}
    done: list[_Run] = []
    periods: dict[float, Fraction] = {}
    dtypes = {encoding: np.dtype(kind) for encoding, kind in (_DTYPES | _OLD_DTYPES).items()}
    for offset, record in _records(file.path):
        count, encoding = record.samplecnt, record.encoding
        if encoding == _TEXT or not count:
            continue
        raw = record.samprate_raw
        if raw not in periods:
            periods[raw] = _period(raw, file.path)
        dtype, period = dtypes.get(encoding, np.dtype(np.float64)), periods[raw]
        start, source = int(record.starttime), str(record.sourceid)
        run = open_runs.get(source)
        if run is None or not run.goes_on(period, start, dtype):
            run = open_runs[source] = _Run(source, period, start, dtype)
            done.append(run)
        run.offsets.append(offset)
        run.sizes.append(record.reclen)
        run.firsts.append(run.frames)
        run.frames += count
    return tuple(done)


def _period(raw: float, path: str) -> Fraction:
    """A raw rate below zero is a period in seconds."""
    if raw < 0 and np.isfinite(raw):
        return period_of(1 / Fraction(str(-raw)), path, "miniseed")
    return period_of(raw, path, "miniseed")


def _records(path: str) -> Iterator[tuple[int, Any]]:
    """The header of every record and where it begins. What is no record is an error, but for zeros, with which recorders fill up."""
    parse = library("pymseed", "seismic", "read.miniseed").MS3Record.parse
    with open(path, "rb") as file:
        size = file.seek(0, 2)
        if not size:
            raise DataError(f"read.miniseed: {path} is empty", hint="copy it again, or leave it out")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
            at, usual = 0, _SMALLEST
            while at < size:
                head = whole[at : at + usual]
                if not head[:_SMALLEST].strip(b"\0"):
                    at += _SMALLEST
                    continue
                try:
                    record = parse(head)
                except Exception:  # it may be longer than those before it
                    record = _parsed(
                        parse, whole[at : at + _LARGEST], f"{path}: no whole record at byte {at} of {size}"
                    )
                yield at, record
                usual = record.reclen
                at += usual


_SMALLEST, _LARGEST = 128, 1 << 17
"""Bytes of a record of version 2."""


def _parsed(parse: Any, raw: bytes, place: str) -> Any:
    try:
        return parse(raw)
    except Exception as error:  # of several kinds: the library asserts, and raises errors of its own
        told = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise DataError(
            f"read.miniseed: {place}: {told}", hint="the file is cut off or damaged: copy it again, or leave it out"
        ) from error
