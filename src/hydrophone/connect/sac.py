"""SAC files as a source of uniform signals: a header of 632 bytes, then float32."""

from __future__ import annotations

import datetime as dt
import os
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from hydrophone.connect.recording import Recording, Track, period_of
from hydrophone.connect.seismic import SeismicData
from hydrophone.errors import DataError

_HEADER = 632
_FOOTER = 176
"""Bytes that version 7 has after the samples."""
_UNSET = -12345
# Words of the header: floats, then integers from word 70 on, then texts of 8 bytes from byte 440 on.
_DELTA, _B = 0, 5
_YEAR, _VERSION, _COUNT, _KIND, _EVEN = 70, 76, 79, 85, 105
_TEXTS = {"station": (440, 8), "location": (464, 8), "channel": (600, 8), "network": (608, 8)}
_VERSIONS = (6, 7)
_TIME_SERIES = 1


@dataclass(frozen=True, eq=False)
class SacData(SeismicData):
    """Samples of SAC files, one channel each, in either order of bytes."""

    kind = "sac"
    suffixes = (".sac", ".SAC")

    def open(self, path: str) -> SacFile:
        """Read the header."""
        return SacFile(self, path)


class SacFile(Recording):
    """One file."""

    def __init__(self, data: SacData, path: str) -> None:
        self.path = path
        with open(path, "rb") as file:
            raw = file.read(_HEADER)
        if len(raw) < _HEADER:
            raise DataError(f"read.sac: {path} is cut off: it has {len(raw)} bytes, and a header has {_HEADER}")
        self.order = next(
            (o for o in "<>" if int(np.frombuffer(raw, f"{o}i4")[_VERSION]) in _VERSIONS),
            None,
        )
        if self.order is None:
            raise DataError(f"read.sac: {path} is no SAC file: its header has no version 6 or 7 in it")
        floats, whole = np.frombuffer(raw[:280], f"{self.order}f4"), np.frombuffer(raw[:440], f"{self.order}i4")
        if whole[_KIND] != _TIME_SERIES or whole[_EVEN] != 1:
            raise DataError(f"read.sac: {path} holds no evenly spaced time series", hint="leave it out")
        # A float32 stands for the shortest decimal that is the same float32.
        delta = Fraction(str(floats[_DELTA])) if np.isfinite(floats[_DELTA]) else Fraction(0)
        period = period_of(1 / delta if delta > 0 else Fraction(0), path, "sac")
        self.frames = int(whole[_COUNT])
        footer = _FOOTER if whole[_VERSION] == 7 else 0
        there = (os.path.getsize(path) - _HEADER - footer) / 4
        if self.frames < 0 or there != self.frames:
            raise DataError(
                f"read.sac: {path} is cut off or damaged: its header tells of {self.frames} samples, and {there:g} are there",
                hint="copy it again, or leave it out",
            )
        key = tuple(_text(raw[at : at + size]) for at, size in (_TEXTS[n] for n in data.key_schema.names))
        start = _start(whole, path) + round(Fraction(str(floats[_B])) * 10**9 if floats[_B] != _UNSET else 0)
        self.tracks = (Track(key, period, start, self.frames, np.dtype(np.float32)),)

    def read(self, track: int, start: int, stop: int) -> npt.NDArray[Any]:
        """The numbers there."""
        return np.fromfile(self.path, f"{self.order}f4", stop - start, offset=_HEADER + 4 * start)


def _text(raw: bytes) -> str:
    found = raw.split(b"\0")[0].decode("latin-1").strip()
    return "" if found == str(_UNSET) else found


def _start(whole: npt.NDArray[np.int32], path: str) -> int:
    year, day, hour, minute, second, millisecond = whole[_YEAR : _YEAR + 6].tolist()
    if year == _UNSET:
        return 0
    try:
        date = dt.date(year, 1, 1) + dt.timedelta(days=day - 1)
    except (ValueError, OverflowError):
        raise DataError(f"read.sac: {path}: year {year}, day {day} of its header is no date") from None
    seconds = (date - dt.date(1970, 1, 1)).days * 86_400 + hour * 3600 + minute * 60 + second
    return (seconds * 1000 + millisecond) * 10**6
