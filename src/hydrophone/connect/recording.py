"""Recordings: files that hold uniform signals behind a header. A format says what one file has; the rest is the same for all."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import isqrt
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.connect.file_data import FileData
from hydrophone.connect.files import File, root_of
from hydrophone.connect.schemas import Merged
from hydrophone.errors import DataError, ParameterError, UnsupportedError
from hydrophone.model.time import FIRST_DATE, LAST_DATE, MAX_TIME, instant
from hydrophone.model.timebase import Timebase
from hydrophone.plan.data import Piece, Times
from hydrophone.plan.types import STAMPS, Clock, arrow_type, rate

BLOCK = 1 << 16
"""Frames of a row, at most: what is read at once."""
LONGEST = 366 * 86_400 * 10**9
"""Nanoseconds that a row lasts, at most."""
TIME, GRID, SAMPLES = "time", "grid", "values"
GRID_TYPE = pa.struct([("num", pa.int64()), ("den", pa.int64()), ("origin", pa.int64())])


@dataclass(frozen=True)
class Track:
    """A run of frames without a gap in one file.

    Attributes
    ----------
    key : the values of the key columns
    period : nanoseconds between two frames
    start : the instant of the first frame
    frames : how many there are
    dtype, channels : what a frame is; no channels: one number
    """

    key: tuple[Any, ...]
    period: Fraction
    start: int
    frames: int
    dtype: np.dtype[Any]
    channels: int = 0

    @cached_property
    def grid(self) -> Timebase:
        """The grid of its samples: the one through the epoch where the start lies on it, which files that go on from each other share."""
        whole = Timebase(self.period)
        return whole if whole.index_at(self.start)[1] else Timebase(self.period, self.start % self.period.numerator)


class Recording:
    """An opened file. Formats subclass it."""

    tracks: Sequence[Track]

    def read(self, track: int, start: int, stop: int) -> npt.NDArray[Any]:
        """The frames ``[start, stop)`` of a track: flat, or a column per channel; fewer where the file ends too early."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of the file."""


@dataclass(frozen=True)
class Names:
    """What the name of a file tells: the key, and when the recording started.

    Without a `pattern` the key is the path below the folder that is read, without its suffix. The named groups of a pattern are key
    columns; of the group ``start`` the digits count, as year, month, day, hour, minute, second and its fraction.

    Examples
    --------
    >>> Names().told("mics/north/a.wav", "mics")
    (('north/a',), 0)
    >>> Names(pattern=r"(?P<mic>[a-z]+)_(?P<start>[0-9_]+)").told("mics/roof_20260101_1200005.wav", "mics")
    (('roof',), 1767268800500000000)
    """

    start: int = 0
    pattern: str | None = None

    def __post_init__(self) -> None:
        try:
            re.compile(self.pattern or "")
        except re.error as error:
            raise ParameterError(f"pattern {self.pattern!r} is no regular expression: {error}") from None

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The key columns that names tell."""
        return tuple(g for g in re.compile(self.pattern or "").groupindex if g != "start") or ("file",)

    def told(self, path: str, root: str) -> tuple[tuple[str, ...], int]:
        """The key of a file and its start."""
        stem = os.path.splitext(os.path.relpath(path, root))[0].replace(os.sep, "/")
        if self.pattern is None:
            return (stem,), self.start
        found = re.search(self.pattern, stem)
        if found is None:
            raise DataError(
                f"{path}: its name {stem!r} does not match the pattern {self.pattern!r}",
                hint="the pattern may match any part of the path below the folder, without the suffix",
            )
        told = found.groupdict()
        start = self.start if told.get("start") is None else _start_in_name(told["start"], path)
        columns = [c for c in self.columns if c in told]
        return tuple(told[c] or "" for c in columns) or (stem,), start

    def __str__(self) -> str:
        return f"start={self.start}" + ("" if self.pattern is None else f", pattern={self.pattern!r}")


def _start_in_name(text: str, path: str) -> int:
    digits = re.sub(r"\D", "", text)
    try:
        date, clock = f"{digits[:4]}-{digits[4:6]}-{digits[6:8]}", digits[8:14].ljust(6, "0")
        if len(digits) < 8:
            raise ParameterError("too few digits")
        return instant(f"{date}T{clock[:2]}:{clock[2:4]}:{clock[4:]}.{digits[14:23] or '0'}")
    except ParameterError:
        raise DataError(
            f"{path}: {text!r} in its name is no time",
            hint="the group start needs the digits of year, month, day, and may have hour, minute, second and a fraction",
        ) from None


@dataclass(frozen=True, eq=False)
class RecordingData(FileData):
    """Uniform signals in the files of one format; a row is a block of frames of one key.

    A format says `kind`, `suffixes`, `library`, `key_schema` and how to `open` a file. Where all files share one grid, as far as they
    are there when the query is built, the signal has it, and a file on another is an error; else every key has a grid of its own.
    """

    names: Names = Names()
    period: Fraction | None = None
    """What the user states: then there may be no file yet, and another period is an error."""
    clock: Clock = "timestamp"

    library: ClassVar[str | None] = None
    """The module that reads the format, and the extra of this package that installs it."""
    extra: ClassVar[str] = ""
    failures: ClassVar[tuple[type[Exception], ...]] = (OSError, ValueError, EOFError)
    """What the library raises for files that it cannot read."""

    # --- what a format says -------------------------------------------------------------------------------------------

    @property
    def key_schema(self) -> pa.Schema:
        """The key columns."""
        return pa.schema([(n, pa.string()) for n in self.names.columns])

    @property
    def expected(self) -> tuple[np.dtype[Any], int]:
        """Type and channels of frames, where there is no file yet."""
        return np.dtype(np.float64), 0

    def open(self, path: str) -> Recording:
        """Look at the header of a file."""
        raise NotImplementedError

    # --- the same for all ---------------------------------------------------------------------------------------------

    def __post_init__(self) -> None:
        if self.library is not None:
            library(self.library, self.extra, f"read.{self.kind}")

    @property
    def none_yet(self) -> bool:
        """With a stated period."""
        return self.period is not None

    @property
    def options(self) -> str:
        """What names tell, and the stated rate."""
        return f"{self.names}, {self.clock}" + ("" if self.period is None else f", period={self.period}")

    def told_by_name(self, path: str) -> tuple[tuple[str, ...], int]:
        """Key and start of a file, by its name."""
        return self.names.told(path, root_of(self.root))

    @cached_property
    def _headers(self) -> dict[str, Sequence[Track]]:
        return {}

    def tracks(self, path: str) -> Sequence[Track]:
        """What the header of a file says; looked at once."""
        if path not in self._headers:
            with self._opened(path) as file:
                self._headers[path] = file.tracks
        return self._headers[path]

    @contextmanager
    def _opened(self, path: str) -> Iterator[Recording]:
        with naming_file(self.kind, path, self.failures), closing(self.open(path)) as file:
            self._check(file.tracks, path)
            yield file

    def _check(self, tracks: Sequence[Track], path: str) -> None:
        """Refuse a file whose rate is not the stated one, or whose times are no dates."""
        for track in tracks:
            if self.period is not None and track.period != self.period:
                raise self._other_rate(track, Timebase(self.period), path)
            last = track.start + track.frames * track.period
            if track.start < FIRST_DATE or last >= LAST_DATE:
                raise DataError(
                    f"read.{self.kind}: {path}: its times do not fit into nanoseconds since 1970 (years 1682 to 2257)",
                    hint="is the header damaged?",
                )

    def _other_rate(self, track: Track, grid: Timebase, path: str) -> DataError:
        return DataError(
            f"read.{self.kind}: {path} has {rate(track.grid)} from {track.start} ns on, and the query reads {rate(grid)}",
            hint="files of one rate and phase make one query; read the others by themselves, or leave rate= out if all are there already",
        )

    @cached_property
    def grid(self) -> Timebase | None:
        """The grid of all samples; None where keys have their own."""
        grids = {track.grid for file in self.files for track in self.tracks(file.path) if track.frames}
        if not grids and self.period is not None:
            return Track((), self.period, self.names.start, 0, np.dtype(float)).grid
        return grids.pop() if len(grids) == 1 else None

    @cached_property
    def frame(self) -> tuple[np.dtype[Any], int]:
        """Type and channels of all frames."""
        found: dict[int, str] = {}
        kinds = set()
        for file in self.files:
            for track in self.tracks(file.path):
                found.setdefault(track.channels, file.path)
                kinds.add(track.dtype)
        if len(found) > 1:
            (one, first), (other, second) = list(found.items())[:2]
            raise DataError(
                f"read.{self.kind}: {first} has {max(one, 1)} channels, and {second} has {max(other, 1)}",
                hint="read them apart, or one channel of all: channel=0",
            )
        return (np.result_type(*kinds), next(iter(found))) if kinds else self.expected

    def merge(self) -> Merged:
        """Key, time and samples, and the grid where there is more than one."""
        dtype, channels = self.frame
        item = pa.list_(arrow_type(dtype), channels) if channels else arrow_type(dtype)
        grid = [] if self.grid is not None else [pa.field(GRID, GRID_TYPE)]
        time = pa.field(TIME, STAMPS[self.clock])
        return Merged(pa.schema([*self.key_schema, time, *grid, pa.field(SAMPLES, pa.list_(item))]))

    def pieces_of(self, file: File, columns: Sequence[str], times: Times) -> Sequence[Piece]:
        """Blocks of frames, in the order of time."""
        tracks, found = self.tracks(file.path), []
        for number, (low, at, start, stop) in enumerate(blocks(tracks)):
            track = tracks[at]
            width = track.dtype.itemsize * max(track.channels, 1)
            high = max(track.grid.instant(_first(track) + stop), low + 1)
            found.append(
                Piece(file, number, stop - start, (stop - start) * width, low, min(high, MAX_TIME), known=True)
            )
        return found

    def constants(self, unit: File) -> Mapping[str, Any]:
        """Key columns that have one value in the whole file."""
        columns = zip(*(track.key for track in self.tracks(unit.path)), strict=True)
        found = zip(self.key_schema.names, map(set, columns), strict=False)
        return {name: values.pop() for name, values in found if len(values) == 1}

    def read_file(
        self, path: str, numbers: Sequence[int] | None, columns: Sequence[str], where: pc.Expression | None
    ) -> Iterator[pa.Table]:
        """Some blocks; small ones together."""
        with self._opened(path) as file:
            self._check_grid(file.tracks, path)
            all_blocks = list(blocks(file.tracks))
            wanted = all_blocks if numbers is None else [all_blocks[n] for n in numbers]
            held: list[_Block] = []
            for low, at, start, stop in wanted:
                values = file.read(at, start, stop)
                if len(values) != stop - start:
                    raise DataError(
                        f"read.{self.kind}: {path} is cut off: its header tells of {file.tracks[at].frames} samples, "
                        f"and it ends after {start + len(values)}",
                        hint="copy it again, or leave it out",
                    )
                held.append(_Block(file.tracks[at], low, values))
                if sum(len(b.values) for b in held) >= BLOCK:
                    yield self._table(held, columns)
                    held = []
            if held:
                yield self._table(held, columns)

    def _check_grid(self, tracks: Sequence[Track], path: str) -> None:
        for track in tracks:
            if self.grid is not None and track.grid != self.grid and track.frames:
                raise self._other_rate(track, self.grid, path)
            if track.channels != self.frame[1]:
                raise DataError(
                    f"read.{self.kind}: {path} has {max(track.channels, 1)} channels, and the query reads {max(self.frame[1], 1)}",
                    hint="read one channel of all files: channel=0",
                )

    def _table(self, held: Sequence[_Block], columns: Sequence[str]) -> pa.Table:
        dtype = self.frame[0]
        samples = sample_array([b.values.astype(dtype, copy=False) for b in held])
        grids = [b.track.grid for b in held]
        known = {
            TIME: lambda kind: pa.array([b.low for b in held], pa.int64()).cast(kind),
            SAMPLES: lambda kind: samples,
            GRID: lambda kind: pa.array(
                [{"num": g.period.numerator, "den": g.period.denominator, "origin": g.origin} for g in grids], kind
            ),
        }
        for at, name in enumerate(self.key_schema.names):
            known[name] = lambda kind, at=at: pa.array([b.track.key[at] for b in held], kind)  # type: ignore[misc]
        schema = pa.schema([self.schema.field(n) for n in columns])
        return pa.table([known[f.name](f.type) for f in schema], schema=schema)

    def __getstate__(self) -> dict[str, Any]:
        """Tasks need not know all headers, but what these agree on."""
        _ = self.grid, self.frame
        return {n: v for n, v in super().__getstate__().items() if n != "_headers"}


@dataclass(frozen=True)
class _Block:
    track: Track
    low: int
    values: npt.NDArray[Any] = field(repr=False)


def sample_array(runs: Sequence[npt.NDArray[Any]]) -> pa.Array:
    """Runs of samples as a column of arrays, one each; channels are lists of a fixed size inside.

    Examples
    --------
    >>> sample_array([np.zeros((2, 3)), np.ones((1, 3))]).type
    ListType(list<item: fixed_size_list<item: double>[3]>)
    """
    cuts = np.concatenate([[0], np.cumsum([len(run) for run in runs])])
    return arrays_of_samples(np.concatenate(runs) if len(runs) > 1 else runs[0], cuts)


def arrays_of_samples(values: npt.NDArray[Any], cuts: npt.NDArray[np.int64]) -> pa.Array:
    """Samples, cut at these places, as a column of arrays; without a copy where they are real numbers."""
    flat = np.ascontiguousarray(values).reshape(-1)
    if flat.dtype.kind == "c":
        items = pa.StructArray.from_arrays([pa.array(flat.real), pa.array(flat.imag)], ["re", "im"])
    else:
        items = pa.Array.from_buffers(arrow_type(flat.dtype), len(flat), [None, pa.py_buffer(flat)])
    if values.ndim == 2:
        items = pa.FixedSizeListArray.from_arrays(items, values.shape[1])
    return pa.ListArray.from_arrays(pa.array(cuts, pa.int32()), items)


def _first(track: Track) -> int:
    return track.grid.index_at(track.start)[0]


def blocks(tracks: Sequence[Track]) -> list[tuple[int, int, int, int]]:
    """The rows of a file: the instant of the first frame, the track, and which frames; in the order of time."""
    found = []
    for at, track in enumerate(tracks):
        step = max(1, min(BLOCK, LONGEST // track.period))
        starts = np.arange(0, track.frames, step)
        lows = track.grid.instant(_first(track) + starts)
        found += [
            (low, at, start, min(start + step, track.frames))
            for low, start in zip(lows.tolist(), starts.tolist(), strict=True)
        ]
    return sorted(found)


def period_of(hertz: float | Fraction, path: str, kind: str) -> Fraction:
    """The exact period of a rate in a header, in nanoseconds. A float stands for the shortest decimal that is the same float.

    Examples
    --------
    >>> period_of(44_100, "a.wav", "wav"), period_of(0.1, "a.sac", "sac")
    (Fraction(10000000, 441), Fraction(10000000000, 1))
    """
    if not isinstance(hertz, Fraction):
        hertz = Fraction(str(hertz)) if np.isfinite(hertz) else Fraction(0)
    if not 0 < hertz <= 10**9 or 10**9 / hertz > MAX_TIME // 4:
        raise DataError(
            f"read.{kind}: {path}: a rate of {float(hertz):g} Hz is none",
            hint="is the header damaged? rates are above 0, up to 1 GHz",
        )
    period = Fraction(10**9) / hertz
    if period.numerator * period.denominator > MAX_TIME:
        # As fine a fraction as 64 bits compute with: off by less than 1e-9 ns in a sample of a millisecond.
        period = period.limit_denominator(max(1, isqrt(int(MAX_TIME / (period + 1)))))
    return period


def library(name: str, extra: str, what: str) -> Any:
    """The module that reads a format, or how to get it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UnsupportedError(
            f"{what}: needs the package {name}, which is not installed ({error})",
            hint=f"pip install 'hydrophone[{extra}]'",
        ) from None


@contextmanager
def naming_file(kind: str, path: str, failures: tuple[type[Exception], ...]) -> Iterator[None]:
    """Turn errors about a file's contents into ones that name it."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"read.{kind}: {path} is gone", hint="files must stay until they are read") from None
    except DataError as error:
        told = f"read.{kind}: {error.message}"
        raise error if error.message.startswith("read.") else DataError(told, hint=error.hint) from None
    except failures as error:
        text = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise DataError(
            f"read.{kind}: {path}: {text}", hint="remove the file, write it again, or name the files that are meant"
        ) from error
