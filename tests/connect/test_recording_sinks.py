"""Recordings that are written are read back bit by bit, times too; what a file cannot hold is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import soundfile
from tests.connect.formats import samples

import hydrophone as hp

RNG = np.random.default_rng(1)


def seismic(x: Any, rate: str = "100Hz", start: int = 0) -> hp.UniformSignal:
    key = {"network": ["XX"], "station": ["STA"], "location": [""], "channel": ["BHZ"]}
    table = pa.table({**key, "time": pa.array([start]).cast(pa.timestamp("ns", "UTC")), "values": [np.asarray(x)]})
    return hp.from_segments(table, key=tuple(key), time="time", period=rate, offset=start)


@pytest.mark.parametrize(
    ("subtype", "x"),
    [
        (None, RNG.integers(-(2**15), 2**15, 1000).astype(np.int16)),
        (None, RNG.integers(-(2**31), 2**31, 1000).astype(np.int32)),
        ("PCM_24", (RNG.integers(-(2**23), 2**23, 1000) << 8).astype(np.int32)),
        (None, RNG.normal(size=1000).astype(np.float32)),
        (None, RNG.normal(size=1000)),
        ("PCM_16", RNG.integers(-(2**15), 2**15, 1000) / 2**15),
        ("PCM_24", RNG.integers(-(2**23), 2**23, (1000, 2)) / 2**23),
        ("PCM_32", RNG.integers(-(2**31), 2**31, 1000) / 2**31),
    ],
    ids=str,
)
def test_wav(tmp_path: Path, subtype: str | None, x: Any) -> None:
    hp.from_numpy({"a": x, "b/c": x[::-1]}, rate="44.1kHz").save(hp.write.wav(tmp_path / "out", subtype=subtype))
    dtype = str(x.dtype)
    read = hp.read.wav(tmp_path / "out", dtype=dtype)
    got = read.to_arrow()
    assert (samples(got, file="a") == x).all()
    assert (samples(got, file="b/c") == x[::-1]).all()
    assert subtype in (None, soundfile.info(tmp_path / "out" / "a.wav").subtype)
    # And once more: the same bytes.
    read.save(hp.write.wav(tmp_path / "again", subtype=subtype))
    assert (tmp_path / "again" / "a.wav").read_bytes() == (tmp_path / "out" / "a.wav").read_bytes()


def test_one_wav_file_and_its_start(tmp_path: Path) -> None:
    signal = hp.from_numpy(RNG.normal(size=100), rate="8kHz", start="2026-01-01 12:00:00.5", key="m")
    signal.save(hp.write.wav(tmp_path / "one.wav"))
    assert soundfile.info(tmp_path / "one.wav").frames == 100
    signal.save(hp.write.wav(tmp_path / "out", start_in_name=True))
    back = hp.read.wav(tmp_path / "out", pattern=r"(?P<key>\w)_(?P<start>[\dT.]+)")
    assert back.to_arrow().sort_by("time").equals(signal.to_arrow().sort_by("time"))


@pytest.mark.parametrize(
    ("encoding", "dtype"),
    [("STEIM1", "i4"), ("STEIM2", "i4"), ("INT32", "i4"), (None, "i2"), (None, "f4"), (None, "f8")],
)
@pytest.mark.parametrize("version", [2, 3])
def test_miniseed(tmp_path: Path, encoding: str | None, dtype: str, version: int) -> None:
    x = np.cumsum(RNG.integers(-100, 100, 5000)).astype(dtype)
    signal = seismic(x, start=1_767_225_600_123_456_000 + (789 if version == 3 else 0))
    signal.save(hp.write.miniseed(tmp_path / "a.mseed", encoding=encoding, version=version, record_length=512))
    got, wanted = (q.to_arrow().sort_by("time") for q in (hp.read.miniseed(tmp_path), signal))
    assert got["time"].equals(wanted["time"])
    assert got["value"].to_numpy().tolist() == x.tolist()


def test_miniseed_keeps_gaps(tmp_path: Path) -> None:
    signal = seismic(np.arange(5000, dtype=np.int32))
    holes = (
        signal.events("value").where((hp.col("value") < 100) | (hp.col("value") > 4000)).signal("value").sample("10ms")
    )
    holes.save(hp.write.miniseed(tmp_path / "a.mseed"))
    assert samples(hp.read.miniseed(tmp_path).to_arrow()).tolist() == [*range(100), *range(4001, 5000)]
    with pytest.raises(hp.DataError, match=r"write\.hdf5: the signal 'XX_STA__BHZ' has a gap at 1000000000 ns"):
        holes.save(hp.write.hdf5(tmp_path / "a.h5"))
    assert not (tmp_path / "a.h5").exists()
    with pytest.raises(hp.DataError, match=r"write\.wav: .* has a gap"):
        holes.save(hp.write.wav(tmp_path / "wav"))
    assert not (tmp_path / "wav").exists()


@pytest.mark.parametrize("rate", ["44.1kHz", "3Hz", "1234567ns"])
def test_hdf5(tmp_path: Path, rate: str) -> None:
    signal = hp.from_numpy({"a": RNG.normal(size=(300, 2)), "b": RNG.normal(size=(70_000, 2))}, rate=rate, start=12_345)
    signal.save(hp.write.hdf5(tmp_path / "a.h5"))
    back = hp.read.hdf5(tmp_path / "a.h5")
    assert back.node.type.timebase == signal.node.type.timebase
    got, wanted = back.to_arrow(), signal.to_arrow()
    for key in "ab":
        assert (samples(got, dataset=key) == samples(wanted, key=key)).all()
    assert sorted(got["time"].to_pylist()) == sorted(wanted["time"].to_pylist())


@pytest.mark.parametrize(
    ("signal", "to", "told"),
    [
        (hp.from_numpy([2.0], rate="1kHz"), lambda p: hp.write.wav(p, subtype="PCM_16"), "samples beyond full scale"),
        (
            hp.from_numpy([float("nan")], rate="1kHz"),
            lambda p: hp.write.wav(p, subtype="PCM_24"),
            "samples beyond full scale, or NaN",
        ),
        (
            hp.from_numpy([1], rate="1kHz"),
            lambda p: hp.write.wav(p, subtype="PCM_16"),
            "int64, of which PCM_16 would lose bits",
        ),
        (hp.from_numpy([1], rate="1kHz"), lambda p: hp.write.wav(p), "int64, of which DOUBLE would lose bits"),
        (hp.from_numpy([1.0], rate="1.5Hz"), hp.write.wav, "1.5 samples in a second"),
        (hp.from_numpy([1j], rate="1kHz"), hp.write.wav, "no complex numbers"),
        (hp.from_numpy({"../x": [1.0]}, rate="1kHz"), hp.write.wav, "names no file under the folder"),
        (hp.from_numpy([1.0], rate="1kHz"), hp.write.miniseed, "keyed by network, station, location, channel"),
        (seismic([0.5]), lambda p: hp.write.miniseed(p, encoding="STEIM2"), "of which STEIM2 would lose bits"),
        (seismic([1], start=1), lambda p: hp.write.miniseed(p, version=2), "version 2 holds whole microseconds"),
        (hp.from_numpy([1.0], rate="1kHz").events("value"), hp.write.hdf5, "only a uniform signal leaves as segments"),
    ],
)
def test_what_a_file_cannot_hold_is_told_and_leaves_nothing(tmp_path: Path, signal: Any, to: Any, told: str) -> None:
    with pytest.raises(hp.HydrophoneError, match=told):
        signal.save(to(tmp_path / "out"))
    assert list(tmp_path.iterdir()) == []


def test_a_stream_is_refused_with_the_reason() -> None:
    for sink in (hp.write.wav("out"), hp.write.miniseed("a.mseed"), hp.write.hdf5("a.h5")):
        with pytest.raises(hp.UnsupportedError, match=r"start: tasks of Spark cannot write (.|\n)*hp.read.segments"):
            sink.check_spark("start")
