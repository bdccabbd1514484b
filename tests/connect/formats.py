"""The formats of recordings, for tests: how a library writes a file with them, and how it is read."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyedflib
import pymseed
import soundfile
import wfdb

import hydrophone as hp

START = 1_767_268_800 * 10**9
"""2026-01-01T12:00."""


@dataclass(frozen=True)
class Format:
    """A format, a writer of whole numbers at some rate from `START` on, and its reader."""

    name: str
    file: str
    write: Callable[[Path, Any, int], None]
    read: Callable[..., hp.UniformSignal]


def write_wav(path: Path, x: Any, rate: int) -> None:
    soundfile.write(path, np.asarray(x, np.float64) / 2**15, rate, format="WAV")


def write_flac(path: Path, x: Any, rate: int) -> None:
    soundfile.write(path, np.asarray(x, np.float64) / 2**15, rate, format="FLAC")


def write_binary(path: Path, x: Any, rate: int) -> None:
    path.write_bytes(bytes(12) + np.asarray(x, ">i2").tobytes())


def miniseed(
    x: Any, rate: float, start: int = START, *, encoding: Any = None, kind: str = "i", name: str = "B_H_Z"
) -> bytes:
    record = pymseed.MS3Record()
    record.sourceid, record.samprate, record.reclen = f"FDSN:XX_STA__{name}", rate, 512
    record.starttime, record.formatversion = start, 2
    record.encoding = pymseed.DataEncoding.STEIM2 if encoding is None else encoding
    return b"".join(record.generate(data_samples=np.asarray(x), sample_type=kind))


def write_miniseed(path: Path, x: Any, rate: int) -> None:
    path.write_bytes(miniseed(np.asarray(x, np.int32), rate))


def sac(x: Any, rate: float, start: dt.datetime = dt.datetime(2026, 1, 1, 12), order: str = "<") -> bytes:
    header = np.full(158, -12345, f"{order}i4")
    floats = np.full(70, -12345.0, f"{order}f4")
    floats[0], floats[5] = 1 / rate, 0.25
    header[:70] = floats.view(f"{order}i4")
    header[70:76] = (
        start.year,
        start.timetuple().tm_yday,
        start.hour,
        start.minute,
        start.second,
        start.microsecond // 1000,
    )
    header[[76, 79, 85, 105]] = 6, len(x), 1, 1
    raw = bytearray(header.tobytes())
    raw[440:] = (b"STA     " + b"-12345  " * 2 + b"10      ").ljust(160, b" ") + b"BHZ     XX      ".ljust(32, b" ")
    return bytes(raw) + np.asarray(x, f"{order}f4").tobytes()


def write_sac(path: Path, x: Any, rate: int) -> None:
    path.write_bytes(sac(x, rate, dt.datetime(2026, 1, 1, 11, 59, 59, 750_000)))


def write_edf(path: Path, x: Any, rate: int) -> None:
    with pyedflib.EdfWriter(str(path), 1, file_type=pyedflib.FILETYPE_EDFPLUS) as writer:
        limits = {"physical_max": 32767, "physical_min": -32768, "digital_max": 32767, "digital_min": -32768}
        writer.setSignalHeaders([{"label": "ECG", "dimension": "uV", "sample_frequency": rate, **limits}])
        writer.setStartdatetime(dt.datetime(2026, 1, 1, 12))
        writer.writeSamples([np.asarray(x, np.int32)], digital=True)


def write_wfdb(path: Path, x: Any, rate: int) -> None:
    wfdb.wrsamp(
        path.stem,
        fs=rate,
        units=["mV"],
        sig_name=["MLII"],
        d_signal=np.asarray(x, np.int64)[:, None],
        fmt=["16"],
        adc_gain=[1.0],
        baseline=[0],
        base_date=dt.date(2026, 1, 1),
        base_time=dt.time(12),
        write_dir=str(path.parent),
    )


def write_hdf5(path: Path, x: Any, rate: int) -> None:
    with h5py.File(path, "w") as file:
        file["x"] = np.asarray(x, np.int16)
        file.attrs["rate"], file.attrs["start"] = rate, "2026-01-01T12:00"


FORMATS = (
    Format("wav", "a.wav", write_wav, lambda p, **k: hp.read.wav(p, start=START, dtype="int16", **k)),
    Format("flac", "a.flac", write_flac, lambda p, **k: hp.read.wav(p, start=START, dtype="int16", **k)),
    Format(
        "binary",
        "a.bin",
        write_binary,
        lambda p, rate=1000, **k: hp.read.binary(p, start=START, dtype=">i2", header=12, rate=f"{rate}Hz", **k),
    ),
    Format("miniseed", "a.mseed", write_miniseed, hp.read.miniseed),
    Format("sac", "a.sac", write_sac, hp.read.sac),
    Format("edf", "a.edf", write_edf, hp.read.edf),
    Format("wfdb", "a.hea", write_wfdb, hp.read.wfdb),
    Format("hdf5", "a.h5", write_hdf5, hp.read.hdf5),
)


def samples(table: pa.Table, **key: str) -> np.ndarray[Any, Any]:
    """The values of one key in the order of time, a column per channel."""
    for name, value in key.items():
        table = table.filter(pa.compute.equal(table[name], value))
    table = table.sort_by("time")
    columns = [table[n].to_numpy() for n in table.column_names if n.startswith("value")]
    return np.stack(columns, axis=1) if len(columns) > 1 else columns[0]


def instants(count: int, rate: int | Fraction, start: int = START) -> list[int]:
    return [start + int(Fraction(10**9) / rate * k) for k in range(count)]


def nanoseconds(table: pa.Table) -> list[int]:
    return sorted(table["time"].cast(pa.int64()).to_pylist())
