"""WFDB records as a source of uniform signals, and their annotations as intervals."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.connect.file_data import FileData
from hydrophone.connect.files import root_of
from hydrophone.connect.recording import Names, Recording, RecordingData, Track, library, naming_file, period_of
from hydrophone.errors import DataError
from hydrophone.model.timebase import Timebase
from hydrophone.plan.types import STAMPS, Clock

_FAILURES = (OSError, ValueError, RuntimeError, KeyError, IndexError, TypeError, AttributeError)
"""wfdb-python checks little: a damaged header may fail anywhere in it."""
_LASTING = ("+", "~", "s", "T")
"""Annotations that hold until the next of their kind: rhythm, quality, ST and T changes."""


@dataclass(frozen=True, eq=False)
class WfdbData(RecordingData):
    """Signals of records, a key for each, in physical units; samples that the record marks as invalid are NaN."""

    kind = "wfdb"
    suffixes = (".hea",)
    library, extra = "wfdb", "medical"
    failures = _FAILURES

    @property
    def key_schema(self) -> pa.Schema:
        """The record, and the name of the signal."""
        return pa.schema([(n, pa.string()) for n in (*self.names.columns, "channel")])

    def open(self, path: str) -> WfdbRecord:
        """Look at the header."""
        return WfdbRecord(self, path)


class WfdbRecord(Recording):
    """One record: a header and its files of samples."""

    def __init__(self, data: WfdbData, path: str) -> None:
        self.library = library("wfdb", "medical", "read.wfdb")
        self.record, self.path = os.path.splitext(path)[0], path
        head = self.library.rdheader(self.record)
        if not head.n_sig:
            self.tracks: tuple[Track, ...] = ()
            return
        if not head.sig_len:
            raise DataError(
                f"read.wfdb: {path} does not say how long its signals are", hint="write the length into the header"
            )
        if getattr(head, "segments", None) is not None or hasattr(head, "seg_name"):
            # The first segment of a record of variable layout names all signals.
            head = self.library.rdheader(self.record, rd_segments=True)
        names, each = head.sig_name, head.__dict__.get("samps_per_frame") or [1] * head.n_sig
        if names is None:
            first = next(s for s in head.segments if s is not None)
            names, each = first.sig_name, first.samps_per_frame
        self._check_length(head)
        key, start = data.told_by_name(path)
        start = _start(head, start)
        self.each = each
        self._held: tuple[tuple[int, int], list[npt.NDArray[Any]]] = (-1, -1), []
        self.tracks = tuple(
            Track(
                (*key, name),
                period_of(Fraction(str(head.fs)) * n, path, "wfdb"),
                start,
                head.sig_len * n,
                np.dtype(float),
            )
            for name, n in zip(names, each, strict=True)
        )

    def _check_length(self, head: Any) -> None:
        """Refuse files of samples that are shorter than the header says; the library may fill them up."""
        if getattr(head, "file_name", None) is None or getattr(head, "fmt", None) is None:
            return
        bits = {"8": 8, "16": 16, "61": 16, "80": 8, "160": 16, "212": 12, "24": 24, "32": 32}
        folder = os.path.dirname(self.record)
        for name in dict.fromkeys(head.file_name):
            mine = [i for i, n in enumerate(head.file_name) if n == name]
            if any(head.fmt[i] not in bits for i in mine):
                continue
            size = sum(bits[head.fmt[i]] * head.samps_per_frame[i] for i in mine) * head.sig_len // 8
            there = os.path.getsize(os.path.join(folder, name)) - (head.byte_offset[mine[0]] or 0)
            if there < size:
                raise DataError(
                    f"read.wfdb: {self.path}: {name} is cut off: the header tells of {size} bytes of samples, and {there} are there",
                    hint="copy it again, or leave it out",
                )

    def read(self, track: int, start: int, stop: int) -> npt.NDArray[Any]:
        """All signals of these frames are decoded together, and kept for the other signals."""
        n = self.each[track]
        span = start // n, -(-stop // n)
        if self._held[0] != span:
            found = self.library.rdrecord(self.record, sampfrom=span[0], sampto=span[1], smooth_frames=False)
            self._held = span, found.e_p_signal
        return self._held[1][track][start - span[0] * n : stop - span[0] * n]


def _start(head: Any, otherwise: int) -> int:
    """Date and time of the header; a time of day alone, or nothing: what the user says."""
    if head.base_date is None or head.base_time is None:
        return otherwise
    date, time = head.base_date, head.base_time
    days = date.toordinal() - 719_163
    seconds = days * 86_400 + time.hour * 3600 + time.minute * 60 + time.second
    return seconds * 10**9 + time.microsecond * 1000


@dataclass(frozen=True, eq=False)
class WfdbAnnotations(FileData):
    """Annotations of records as events: rhythms and the like hold until the next of their kind, beats last one sample."""

    kind = "wfdb_annotations"

    names: Names = field(default_factory=Names)
    extension: str = "atr"
    clock: Clock = "timestamp"

    @property
    def suffixes(self) -> tuple[str, ...]:  # type: ignore[override]
        """As the annotator is called."""
        return (f".{self.extension}",)

    @property
    def options(self) -> str:
        """What names tell."""
        return f"{self.names}, {self.clock}"

    def schema_of(self, path: str) -> pa.Schema:
        """The same for all."""
        stamp = STAMPS[self.clock]
        key = [(n, pa.string()) for n in self.names.columns]
        return pa.schema([*key, ("time", stamp), ("end", stamp), ("symbol", pa.string()), ("note", pa.string())])

    def read_file(
        self, path: str, numbers: Sequence[int] | None, columns: Sequence[str], where: pc.Expression | None
    ) -> Iterator[pa.Table]:
        """All annotations of a file."""
        wfdb = library("wfdb", "medical", "read.wfdb_annotations")
        record = os.path.splitext(path)[0]
        with naming_file(self.kind, path, _FAILURES):
            head = wfdb.rdheader(record)
            found = wfdb.rdann(record, self.extension)
            key, start = self.names.told(path, root_of(self.root))
            grid = Timebase(period_of(Fraction(str(found.fs or head.fs)), path, self.kind), _start(head, start))
        at = np.asarray(found.sample, np.int64)
        last = max(int(head.sig_len or 0), int(at.max(initial=0)) + 1)
        until = _ends(at, found.symbol, last)
        stamp = STAMPS[self.clock]
        known: dict[str, Any] = dict.fromkeys(("time", "end"))
        known |= {"symbol": pa.array(found.symbol, pa.string())}
        known |= {"note": pa.array([n.rstrip("\0") for n in found.aux_note], pa.string())}
        known["time"], known["end"] = (pa.array(grid.instant(t)).cast(stamp) for t in (at, until))
        known |= {n: pa.array([v] * len(at), pa.string()) for n, v in zip(self.names.columns, key, strict=True)}
        yield pa.table({n: known[n] for n in columns})


def _ends(at: npt.NDArray[np.int64], symbols: Sequence[str], last: int) -> npt.NDArray[np.int64]:
    until = at + 1
    kinds = np.asarray(symbols)
    for symbol in _LASTING:
        mine = np.flatnonzero(kinds == symbol)
        if len(mine):
            until[mine] = np.maximum(np.append(at[mine][1:], last), at[mine] + 1)
    return until
