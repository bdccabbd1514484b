"""EDF and BDF files as a source of uniform signals: pyedflib checks the header, and samples are read by ranges."""

from __future__ import annotations

import datetime as dt
import os
import re
import threading
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hydrophone.connect.recording import Recording, RecordingData, Track, library, period_of
from hydrophone.errors import DataError

_ANNOTATIONS = ("EDF Annotations", "BDF Annotations")
_one_at_a_time = threading.Lock()
"""EDFlib opens a file once in a process."""


@dataclass(frozen=True, eq=False)
class EdfData(RecordingData):
    """Signals of EDF, EDF+, BDF and BDF+ files, a key for each. Values are physical, or with an integer `dtype` as they are stored."""

    kind = "edf"
    suffixes = (".edf", ".bdf", ".EDF", ".BDF")
    library, extra = "pyedflib", "medical"
    failures = (OSError, ValueError, RuntimeError)

    dtype: str = "float64"

    @property
    def key_schema(self) -> pa.Schema:
        """The file, and the label of the signal."""
        return pa.schema([(n, pa.string()) for n in (*self.names.columns, "channel")])

    @property
    def options(self) -> str:
        """The type too."""
        return f"{super().options}, dtype={self.dtype}"

    def open(self, path: str) -> EdfFile:
        """Look at the header."""
        return EdfFile(self, path)


class EdfFile(Recording):
    """One file: records of equal length, each with some samples of every signal."""

    def __init__(self, data: EdfData, path: str) -> None:
        self.path, self.data = path, data
        start, self.scale = _checked_header(path)
        with open(path, "rb") as file:
            raw = file.read(256)
            count = int(raw[252:256])
            raw += file.read(256 * count)
        self.width = 3 if raw[:1] == b"\xff" else 2
        sizes = [int(_field(raw, count, 216, 8, i)) for i in range(count)]
        labels = [_field(raw, count, 0, 16, i) for i in range(count)]
        self.begin = np.concatenate([[0], np.cumsum(sizes)]) * self.width
        self.header, self.length, self.sizes = 256 * (count + 1), int(self.begin[-1]), sizes
        self.records = int(raw[236:244])
        plus = raw[192:196] in (b"EDF+", b"BDF+")  # in older files a signal may be called so
        notes = [i for i, label in enumerate(labels) if plus and label in _ANNOTATIONS]
        self.signals = [i for i in range(count) if i not in notes]
        self._check_length()
        start += self._offset(notes[0]) if notes and self.records else 0
        lasts = Fraction(raw[244:252].decode().strip())
        key, _ = data.told_by_name(path)
        found, seen = [], dict.fromkeys(labels, 0)
        for i in self.signals:
            seen[labels[i]] += 1
            label = labels[i] if seen[labels[i]] == 1 else f"{labels[i]} {seen[labels[i]]}"
            period = period_of(sizes[i] / lasts if lasts > 0 else Fraction(0), path, "edf")
            found.append(Track((*key, label), period, start, self.records * sizes[i], np.dtype(data.dtype)))
        self.tracks = found

    def _check_length(self) -> None:
        there = os.path.getsize(self.path) - self.header
        if there != self.records * self.length:
            raise DataError(
                f"read.edf: {self.path} is cut off or damaged: its header tells of {self.records * self.length} bytes of samples, "
                f"and {there} are there",
                hint="copy it again, or leave it out",
            )

    def _offset(self, notes: int) -> int:
        """Nanoseconds after the second of the header at which the first record starts: the first of its annotations says so."""
        with open(self.path, "rb") as file:
            file.seek(self.header + int(self.begin[notes]))
            onset = re.match(rb"[+-]\d+(\.\d+)?", file.read(self.sizes[notes] * self.width))
        return round(Fraction(onset[0].decode()) * 10**9) if onset else 0

    def read(self, track: int, start: int, stop: int) -> npt.NDArray[Any]:
        """The signal's part of all records that hold these samples."""
        signal = self.signals[track]
        size, begin = self.sizes[signal], int(self.begin[signal])
        first, last = start // size, -(-stop // size)
        raw = np.fromfile(self.path, np.uint8, (last - first) * self.length, offset=self.header + first * self.length)
        mine = raw[: len(raw) // self.length * self.length].reshape(-1, self.length)[
            :, begin : begin + size * self.width
        ]
        digital = _integers(np.ascontiguousarray(mine), self.width)[start - first * size : stop - first * size]
        if self.data.dtype != "float64":
            return digital
        gain, offset = self.scale[track]
        return gain * (offset + digital)


def _checked_header(path: str) -> tuple[int, list[tuple[float, float]]]:
    """The start, and by signal gain and offset: a physical value is ``gain * (offset + stored)``, as EDFlib computes it."""
    edf = library("pyedflib", "medical", "read.edf")
    with _one_at_a_time:
        file = edf.EdfReader(path, edf.DO_NOT_READ_ANNOTATIONS)
        try:
            date = file.getStartdatetime()
            limits = [
                (
                    file.getPhysicalMaximum(i),
                    file.getPhysicalMinimum(i),
                    file.getDigitalMaximum(i),
                    file.getDigitalMinimum(i),
                )
                for i in range(file.signals_in_file)
            ]
        finally:
            file.close()
    scale = [
        ((high - low) / (top - bottom), high / ((high - low) / (top - bottom)) - top)
        for high, low, top, bottom in limits
    ]
    since = date - dt.datetime(1970, 1, 1)
    return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000, scale


def _field(raw: bytes, count: int, before: int, size: int, signal: int) -> str:
    """A field of a signal: the header has each field of all signals together; `before` are the bytes of the fields before it."""
    at = 256 + before * count + size * signal
    return raw[at : at + size].decode("latin-1").strip()


def _integers(raw: npt.NDArray[np.uint8], width: int) -> npt.NDArray[np.int32]:
    flat = raw.reshape(-1, width)
    if width == 2:
        return flat.view("<i2")[:, 0].astype(np.int32)
    wide = np.zeros((len(flat), 4), np.uint8)
    wide[:, 1:] = flat
    return wide.view("<i4")[:, 0] >> 8
