"""Readers of recordings, as the user writes them: ``hp.read.wav(...)`` and its kin."""

from __future__ import annotations

import datetime as dt
import re
from os import PathLike
from typing import Literal

from hydrophone.api.handles import UniformSignal
from hydrophone.api.sources import _path
from hydrophone.arguments import public
from hydrophone.connect.recording import GRID, LONGEST, SAMPLES, TIME, Names, RecordingData
from hydrophone.connect.wav import DTYPES, WavData
from hydrophone.errors import ParameterError
from hydrophone.model.progress import Policy
from hydrophone.model.time import Duration, Instant, instant
from hydrophone.model.time import period as exact_period
from hydrophone.plan.node import build
from hydrophone.plan.source import Layout, Source
from hydrophone.plan.types import Clock

Path = str | PathLike[str]


def recordings(data: RecordingData, progress: Policy | None, name: str | None) -> UniformSignal:
    """The signals of recordings."""
    grid = data.grid
    layout = Layout(
        data.schema,
        tuple(data.key_schema.names),
        TIME,
        samples=SAMPLES,
        period=GRID if grid is None else None,
        timebase=grid,
        longest=LONGEST,
    )
    return UniformSignal(build(Source(data=data, layout=layout, progress=progress, label=name)))


@public
def read_wav(
    path: Path,
    *,
    start: Instant = 0,
    pattern: str | None = None,
    rate: Duration | None = None,
    channel: int | None = None,
    channels: int | None = None,
    dtype: Literal["float64", "float32", "int16", "int32"] = "float64",
    clock: Clock | None = None,
    progress: Policy | None = None,
    name: str | None = None,
) -> UniformSignal:
    r"""Samples of WAV and FLAC files as uniform signals: rate and channels of the header, a key for every file.

    Files are read by ranges: a recording may be much larger than memory. Files of one rate make one signal, with which filters in
    Hz can be designed; where rates differ, every key has its own.

    Parameters
    ----------
    path : str or list of str
        A file, a folder (every ``*.wav`` and ``*.flac`` under it), a pattern such as ``"mics/*.wav"``, or a list of these.
    start : instant
        When every recording starts, unless its name tells: text (``"2026-01-01 12:00"``), a datetime, or nanoseconds. By default 1970.
    pattern : str, optional
        A regular expression for a part of the path below the folder, without the suffix. Its named groups are key columns, but for
        the group ``start``, whose digits are year, month, day, hour, minute, second and fraction of the first sample. Without it the
        key is one column, ``file``: that path.
    rate : str, optional
        The rate that all files have (``"44.1kHz"``); one of another rate is an error. With it there need be no file yet.
    channel : int, optional
        Only this channel, counted from 0. By default a file of several channels is a signal with as many.
    channels : int, optional
        How many channels files have that are still to come.
    dtype : str
        "float64" and "float32" are fractions of full scale, from -1 to 1; "int16" and "int32" the integers of the file, from the
        left: those of 24 bits are multiples of 256. A type that would lose bits of a file is refused.
    clock : "int", "timestamp" or "zoned", optional
        What times are: integers in nanoseconds, or timestamps without or with a zone. By default integers where the start is one, and
        no date is known. Spark's timestamps are microseconds: rates such as 44.1 kHz need integers there.
    progress, name :
        As in `from_arrow`.

    Raises
    ------
    DataError
        For files that are cut off or damaged, have another number of channels or, where one is stated, another rate. It names them.

    Examples
    --------
    >>> import hydrophone as hp, numpy as np, soundfile, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for mic in ("north", "south"):
    ...     soundfile.write(folder / f"{mic}_20260101_120000.wav", np.array([0.5, -0.25]), 44_100)
    >>> sound = hp.read.wav(folder, pattern=r"(?P<mic>\w+?)_(?P<start>[\d_]+)")
    >>> sound
    <UniformSignal(float64, 44100 Hz) by mic>
    >>> sound.to_pandas().sort_values(["mic", "time"])
         mic                          time  value
    0  north 2026-01-01 12:00:00.000000000   0.50
    1  north 2026-01-01 12:00:00.000022675  -0.25
    2  south 2026-01-01 12:00:00.000000000   0.50
    3  south 2026-01-01 12:00:00.000022675  -0.25
    """
    if dtype not in DTYPES:
        raise ParameterError(f"read.wav: dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    for what, value, least in (("channel", channel, 0), ("channels", channels, 1)):
        if value is not None and value < least:
            raise ParameterError(f"read.wav: {what} must be at least {least}, got {value}")
    data = WavData(
        _path(path, "read.wav"),
        Names(instant(start), pattern),
        None if rate is None else exact_period(rate),
        clock or _clock(start, pattern),
        dtype,
        channel,
        channels,
    )
    return recordings(data, progress, name)


def _clock(start: Instant, pattern: str | None) -> Clock:
    """Timestamps where a date is known."""
    if isinstance(start, dt.datetime) and start.tzinfo is not None:
        return "zoned"
    if isinstance(start, str):
        return "zoned" if re.search(r":\d\d[\d.,]*\s*(Z|[+-]\d\d:?\d\d)\s*$", start) else "timestamp"
    return "int" if isinstance(start, int) and "(?P<start>" not in (pattern or "") else "timestamp"
