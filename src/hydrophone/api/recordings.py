"""Readers of recordings, as the user writes them: ``hp.read.wav(...)`` and its kin."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Literal

import numpy as np

from hydrophone.api.handles import UniformSignal
from hydrophone.api.sources import Paths, path_text
from hydrophone.arguments import public
from hydrophone.connect.binary import BinaryData
from hydrophone.connect.hdf5 import Hdf5Data
from hydrophone.connect.recording import GRID, LONGEST, SAMPLES, TIME, Names, RecordingData
from hydrophone.connect.wav import DTYPES, WavData
from hydrophone.errors import ParameterError
from hydrophone.model.progress import Policy
from hydrophone.model.time import Duration, Instant, instant, scalar
from hydrophone.model.time import period as exact_period
from hydrophone.plan.node import build
from hydrophone.plan.source import Layout, Source
from hydrophone.plan.types import Clock


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
    path: Paths,
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
        path_text(path, "read.wav"),
        Names(instant(start), pattern),
        stated_period(rate),
        clock or clock_of_start(start, pattern),
        dtype,
        channel,
        channels,
    )
    return recordings(data, progress, name)


@public
def read_binary(
    path: Paths,
    *,
    rate: Duration,
    dtype: str = "<f8",
    channels: int = 1,
    header: int = 0,
    start: Instant = 0,
    pattern: str | None = None,
    clock: Clock | None = None,
    progress: Policy | None = None,
    name: str | None = None,
) -> UniformSignal:
    """Plain numbers of binary files with a declared layout as uniform signals, a key for every file.

    Parameters
    ----------
    path : str or list of str
        A file, a folder (every ``*.bin``, ``*.raw``, ``*.dat``, ``*.pcm`` and ``*.iq`` under it), a pattern, or a list of these.
    rate : str
        Frames in a second (``"25.6kHz"``), or their spacing.
    dtype : str
        The type of a number, as NumPy names it, with the order of its bytes: ``"<i2"``, ``">f4"``. Complex numbers (``"<c8"``) have
        one channel.
    channels : int
        Numbers of a frame, which follow each other.
    header : int
        Bytes before the first frame.
    start, pattern, clock, progress, name :
        As in `read_wav`.

    Examples
    --------
    >>> import hydrophone as hp, numpy as np, tempfile
    >>> path = tempfile.mkdtemp() + "/pump.bin"
    >>> np.array([[1, 2], [3, 4]], "<i2").tofile(path)
    >>> hp.read.binary(path, dtype="<i2", channels=2, rate="25.6kHz")
    <UniformSignal(int16[2], 25600 Hz) by file>
    """
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = np.dtype(object)
    if kind.kind not in "iufc" or kind.itemsize > (16 if kind.kind == "c" else 8):
        raise ParameterError(
            f"read.binary: dtype {dtype!r} is no type of numbers", hint='such as "<i2", "<f4", ">f8" or "<c8"'
        )
    if kind.kind == "c" and channels > 1:
        raise ParameterError("read.binary: complex numbers have one channel", hint='read them as channels of "<f4"')
    for what, value, least in (("channels", channels, 1), ("header", header, 0)):
        if value < least:
            raise ParameterError(f"read.binary: {what} must be at least {least}, got {value}")
    names, times = Names(instant(start), pattern), clock or clock_of_start(start, pattern)
    data = BinaryData(path_text(path, "read.binary"), names, stated_period(rate), times, kind.str, channels, header)
    return recordings(data, progress, name)


@public
def read_hdf5(
    path: Paths,
    dataset: str | Sequence[str] | None = None,
    *,
    rate: Duration | None = None,
    start: Instant = 0,
    rate_attribute: str = "rate",
    start_attribute: str = "start",
    pattern: str | None = None,
    clock: Clock | None = None,
    progress: Policy | None = None,
    name: str | None = None,
) -> UniformSignal:
    """Datasets of HDF5 files as uniform signals, keyed by ``file`` and ``dataset``.

    A dataset has one dimension, or two: frames and channels.

    Parameters
    ----------
    path : str or list of str
        A file, a folder (every ``*.h5``, ``*.hdf5`` and ``*.hdf`` under it), a pattern, or a list of these.
    dataset : str or list of str, optional
        Which ones; by default all that hold numbers in one or two dimensions.
    rate, start :
        Of datasets without the attributes below.
    rate_attribute, start_attribute : str
        Attributes of the dataset, or of a group around it: the rate as a number in Hz or a text (``"25.6kHz"``), and the start as text in
        ISO 8601 or integer nanoseconds.
    pattern, clock, progress, name :
        As in `read_wav`.

    Examples
    --------
    >>> import hydrophone as hp, h5py, tempfile
    >>> path = tempfile.mkdtemp() + "/run.h5"
    >>> with h5py.File(path, "w") as file:
    ...     file["accel/x"] = [1.0, 2.0, 3.0]
    ...     file["accel"].attrs["fs"] = 25_600
    >>> hp.read.hdf5(path, rate_attribute="fs")
    <UniformSignal(float64, 25600 Hz) by file, dataset>
    """
    chosen = () if dataset is None else (dataset,) if isinstance(dataset, str) else tuple(dataset)
    data = Hdf5Data(
        path_text(path, "read.hdf5"),
        Names(instant(start), pattern),
        stated_period(rate),
        clock or clock_of_start(start, pattern),
        chosen,
        (rate_attribute, start_attribute),
    )
    return recordings(data, progress, name)


def stated_period(rate: Duration | None) -> Fraction | None:
    """What the user says of the rate."""
    return None if rate is None else exact_period(rate)


def clock_of_start(start: Instant, pattern: str | None) -> Clock:
    """Timestamps where a date is known."""
    if isinstance(start, dt.datetime) and start.tzinfo is not None:
        return "zoned"
    if isinstance(start, str):
        return "zoned" if re.search(r":\d\d[\d.,]*\s*(Z|[+-]\d\d:?\d\d)\s*$", start) else "timestamp"
    return "int" if isinstance(scalar(start), int | np.integer) and "(?P<start>" not in (pattern or "") else "timestamp"
