"""WAV and FLAC files: exact samples and times on every host, and clear errors for files that are not what they say."""

from __future__ import annotations

import os
import struct
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.io.tests
import scipy.io.wavfile
import scipy.signal
import soundfile
from pyspark.sql import SparkSession

import hydrophone as hp
from hydrophone.connect import recording

SCIPY = Path(scipy.io.tests.__file__).parent / "data"
RATE = 44_100
REFUSED = ("inconsistent", "early-eof", "incomplete", "36bit", "45bit", "53bit", "64bit.wav")
"""What libsndfile cannot read, or what is not what it says."""


def noise(seed: int, frames: int = 1000, channels: int = 1) -> np.ndarray[Any, Any]:
    x = np.random.default_rng(seed).integers(-(2**15), 2**15, (frames, channels)) / 2**15
    return x if channels > 1 else x[:, 0]


def write(path: Path, x: Any, rate: int = RATE, subtype: str | None = None) -> Path:
    """As files arrive: written elsewhere, then moved."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}")
    soundfile.write(draft, x, rate, subtype=subtype, format=path.suffix[1:])
    draft.rename(path)
    return path


def samples(table: pa.Table, **key: str) -> np.ndarray[Any, Any]:
    """The values of one key in the order of time, a column per channel."""
    for name, value in key.items():
        table = table.filter(pa.compute.equal(table[name], value))
    table = table.sort_by("time")
    columns = [table[n].to_numpy() for n in table.column_names if n.startswith("value")]
    return np.stack(columns, axis=1) if len(columns) > 1 else columns[0]


def instants(count: int, rate: int = RATE, start: int = 0) -> list[int]:
    return [start + int(Fraction(10**9, rate) * k) for k in range(count)]


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that small files have several pieces, also for the shares of this process."""
    monkeypatch.setattr(recording, "BLOCK", 100)
    monkeypatch.setattr("hydrophone.engine.shares.SMALL_BYTES", 0)
    monkeypatch.setattr("hydrophone.engine.shares.BYTES_PER_SHARE", 1000)


# --- samples and times --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".wav", ".flac"])
@pytest.mark.parametrize("channels", [1, 2])
def test_samples_and_times_are_exact(tmp_path: Path, suffix: str, channels: int, small_blocks: None) -> None:
    x = noise(1, 1234, channels)
    write(tmp_path / f"a{suffix}", x)
    signal = hp.read.wav(tmp_path)
    got = signal.to_arrow(threads=2)
    assert (samples(got) == x).all()
    assert sorted(got["time"].to_pylist()) == instants(len(x))
    assert signal.node.type.timebase == hp.Timebase.every("44.1kHz")


@pytest.mark.parametrize(
    ("subtype", "dtype"),
    [
        ("PCM_U8", "int16"),
        ("PCM_16", "int16"),
        ("PCM_24", "int32"),
        ("PCM_32", "int32"),
        ("FLOAT", "float32"),
        ("DOUBLE", "float64"),
    ],
)
def test_every_bit_of_a_sample(tmp_path: Path, subtype: str, dtype: Any) -> None:
    bits = {"PCM_U8": 8, "PCM_16": 16, "PCM_24": 24, "PCM_32": 32}.get(subtype, 0)
    rng = np.random.default_rng(3)
    whole = (rng.integers(0, 2**bits, 500) - 2**bits // 2) << ((16 if dtype == "int16" else 32) - bits if bits else 0)
    x = (whole if bits else rng.normal(size=500)).astype(dtype)
    write(tmp_path / "a.wav", x, subtype=subtype)
    got = samples(hp.read.wav(tmp_path, dtype=dtype).to_arrow())
    assert got.dtype == dtype
    assert (got == x).all()
    if bits:
        full = float(np.iinfo(dtype).max) + 1
        assert (samples(hp.read.wav(tmp_path).to_arrow()) * full == x).all()


@pytest.mark.parametrize("name", sorted(p.name for p in SCIPY.glob("test-*.wav")))
def test_the_files_that_scipy_carries(name: str) -> None:
    """Equal to libsndfile, and where SciPy reads integers of at least 16 bits, to SciPy; or an error that names the file."""
    path = SCIPY / name
    if any(word in name for word in REFUSED):
        with pytest.raises(hp.DataError, match=name):
            hp.read.wav(path)
        return
    got = samples(hp.read.wav(path).to_arrow())
    x, rate = soundfile.read(path)
    assert (got == x).all()
    assert hp.read.wav(path).node.type.timebase.rate_hz == rate
    if "ulaw" not in name:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # chunks that SciPy does not know
            rate, theirs = scipy.io.wavfile.read(path)
        if theirs.dtype.kind == "i":
            assert (got * 2.0 ** (8 * theirs.dtype.itemsize - 1) == theirs).all()
        elif theirs.dtype.kind == "f":
            assert (got == theirs).all()


def test_the_name_of_a_file_tells_key_and_start(tmp_path: Path) -> None:
    write(tmp_path / "roof" / "m1_2026-01-01T120000.250.wav", noise(1, 10), 8000)
    write(tmp_path / "yard" / "m1_2026-01-01T120000.wav", noise(2, 10), 8000)
    told = hp.read.wav(tmp_path, pattern=r"(?P<site>\w+)/(?P<mic>\w+?)_(?P<start>[\d.T-]+)")
    got = told.to_arrow()
    assert got.column_names == ["site", "mic", "time", "value"]
    begin = {r["site"]: r["time"].isoformat() for r in got.sort_by([("time", "descending")]).to_pylist()}
    assert begin == {"roof": "2026-01-01T12:00:00.250000", "yard": "2026-01-01T12:00:00"}
    assert sorted(set(hp.read.wav(tmp_path, start="2026-01-01").to_arrow()["file"].to_pylist())) == [
        "roof/m1_2026-01-01T120000.250",
        "yard/m1_2026-01-01T120000",
    ]
    with pytest.raises(hp.DataError, match=r"m1_2026-01-01T120000.*does not match the pattern"):
        hp.read.wav(tmp_path, pattern=r"(?P<mic>x)")
    with pytest.raises(hp.DataError, match=r"wav: 'm1' in its name is no time"):
        hp.read.wav(tmp_path, pattern=r"(?P<start>m1)")
    with pytest.raises(hp.ParameterError, match="no regular expression"):
        hp.read.wav(tmp_path, pattern="(")


@pytest.mark.parametrize(
    ("start", "kind"),
    [(0, pa.int64()), ("2026-01-01", pa.timestamp("ns")), ("2026-01-01T00:00:00Z", pa.timestamp("ns", "UTC"))],
)
def test_what_times_are(tmp_path: Path, start: Any, kind: pa.DataType) -> None:
    write(tmp_path / "a.wav", noise(1, 3))
    assert hp.read.wav(tmp_path, start=start).to_arrow().schema.field("time").type == kind
    assert hp.read.wav(tmp_path, start=start, clock="int").to_arrow().schema.field("time").type == pa.int64()


def test_files_that_go_on_from_each_other_are_one_signal(tmp_path: Path, small_blocks: None) -> None:
    x = noise(5, 3 * 8000)
    for k in range(3):
        write(tmp_path / f"m_2026010112000{k}.wav", x[k * 8000 : (k + 1) * 8000], 8000)
    signal = hp.read.wav(tmp_path, pattern=r"(?P<mic>\w)_(?P<start>\d+)")
    taps = [0.5, 0.25, 0.25]
    np.testing.assert_allclose(samples(signal.fir(taps).to_arrow()), scipy.signal.lfilter(taps, 1, x), atol=1e-15)


def test_files_of_several_rates_have_a_grid_each(tmp_path: Path, small_blocks: None) -> None:
    """Phases too: a start between the samples of the grid through the epoch."""
    for name, rate in (("a", RATE), ("b", 8000), ("c", 11_025)):
        write(tmp_path / f"{name}.wav", noise(rate, 500), rate)
    signal = hp.read.wav(tmp_path, start=12_345).fir([1.0, -1.0])
    got = signal.to_arrow()
    for name, rate in (("a", RATE), ("b", 8000), ("c", 11_025)):
        mine = got.filter(pa.compute.equal(got["file"], name))
        assert sorted(mine["time"].to_pylist()) == instants(500, rate, 12_345)
        assert (samples(mine) == np.diff(noise(rate, 500), prepend=0)).all()
    with pytest.raises(hp.DataError, match=r"b\.wav has every 125us .* and the query reads 44100 Hz"):
        hp.read.wav(tmp_path, rate="44.1kHz")


def test_other_channels_are_told_and_one_can_be_chosen(tmp_path: Path) -> None:
    write(tmp_path / "a.wav", noise(1, 50, 2))
    write(tmp_path / "b.wav", noise(2, 50))
    with pytest.raises(hp.DataError, match=r"a\.wav has 2 channels, and .*b\.wav has 1"):
        hp.read.wav(tmp_path)
    assert (samples(hp.read.wav(tmp_path, channel=0).to_arrow(), file="a") == noise(1, 50, 2)[:, 0]).all()
    with pytest.raises(hp.DataError, match=r"b\.wav has 1 channels, and channel=1 is none of them"):
        hp.read.wav(tmp_path, channel=1)


def test_threads_and_ranges_change_nothing(tmp_path: Path, small_blocks: None) -> None:
    for k in range(4):
        write(tmp_path / f"{k}.wav", noise(k, 777, 2))
    query = hp.read.wav(tmp_path).window(64, hop=32).taper("hann").power().mean()
    one = query.to_arrow(threads=1)
    assert query.to_arrow(threads=3, memory="1 MB").equals(one)
    assert len(one) == 4 * ((777 - 64) // 32 + 1)


# --- files that are not what they say -----------------------------------------------------------------------------------


def test_every_cut_of_a_file_is_told(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole" / "a.wav", noise(1, 100)).read_bytes()
    path = tmp_path / "a.wav"
    for size in [0, 1, 11, 12, 20, 43, 44, 45, len(whole) - 2, len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(hp.DataError, match=r"read\.wav: .*a\.wav"):
            hp.read.wav(path).to_arrow()


def test_cut_and_damaged_flac_is_told(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole" / "a.flac", noise(1, 20_000)).read_bytes()
    path = tmp_path / "a.flac"
    broken = bytearray(whole)
    broken[len(whole) // 2 : len(whole) // 2 + 2000] = bytes(2000)
    for given in (
        whole[:10],
        whole[:60],
        whole[: len(whole) // 2],
        whole[:-10],
        bytes(broken),
        b"",
        b"no sound at all",
    ):
        path.write_bytes(given)
        with pytest.raises(hp.DataError, match=r"read\.wav: .*a\.flac"):
            hp.read.wav(path).to_arrow()


@pytest.mark.parametrize("rate", [0, 1, 2**31 - 1])
def test_a_rate_that_is_none_is_told(tmp_path: Path, rate: int) -> None:
    path = write(tmp_path / "a.wav", noise(1, 100), 8000)
    raw = bytearray(path.read_bytes())
    raw[24:28] = struct.pack("<I", rate)
    path.write_bytes(raw)
    with pytest.raises(hp.DataError, match=r"a\.wav: its header tells of \d+ samples in a second and of 16000 bytes"):
        hp.read.wav(path)


def test_a_length_left_open_means_to_the_end(tmp_path: Path) -> None:
    """Writers into a pipe cannot know it."""
    path = write(tmp_path / "a.wav", noise(1, 100))
    raw = bytearray(path.read_bytes())
    raw[4:8] = raw[40:44] = struct.pack("<I", 0xFFFFFFFF)
    path.write_bytes(raw)
    assert (samples(hp.read.wav(path).to_arrow()) == noise(1, 100)).all()


def test_bits_are_not_lost_without_a_word(tmp_path: Path) -> None:
    write(tmp_path / "a.wav", noise(1, 10), subtype="PCM_24")
    with pytest.raises(hp.DataError, match=r"a\.wav holds PCM_24, of which int16 would lose bits"):
        hp.read.wav(tmp_path, dtype="int16")


def test_a_file_that_changes_after_planning_is_told(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav", noise(1, 100))
    query = hp.read.wav(path)
    write(path, noise(2, 200))
    with pytest.raises(hp.DataError, match="has changed since the query was planned"):
        query.to_arrow()


def test_a_missing_library_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "soundfile", None)
    with pytest.raises(
        hp.UnsupportedError, match=r"needs the package soundfile(.|\n)*pip install 'hydrophone\[audio\]'"
    ):
        hp.read.wav(tmp_path)


# --- on Spark -----------------------------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.parametrize(
    ("plan", "options"), [("slices", {"slices": 3}), ("keys", {}), ("shards", {"shards": 2}), ("auto", {})]
)
def test_tasks_of_a_batch(spark: SparkSession, tmp_path: Path, plan: Any, options: dict[str, int]) -> None:
    for k in range(3):
        write(tmp_path / f"{k}.wav", noise(k, 150_000, 2))  # three blocks each
    query = hp.read.wav(tmp_path).fir([0.5, 0.25, 0.25]).window(1000).mean()
    got = query.to_spark(spark, plan=plan, **options).toArrow().sort_by([("file", "ascending"), ("time", "ascending")])
    wanted = query.to_arrow().sort_by([("file", "ascending"), ("time", "ascending")])
    assert got.to_pydict() == wanted.to_pydict()
    assert len(got) == 450


@pytest.mark.spark
def test_rates_that_differ_travel_through_an_exchange(spark: SparkSession, tmp_path: Path) -> None:
    for name, rate in (("a", RATE), ("b", 8000)):
        write(tmp_path / f"{name}.wav", noise(rate, 500), rate)
    query = hp.read.wav(tmp_path, start=12_345).fir([1.0, -1.0])
    got = query.to_spark(spark, plan="shards", shards=2).toArrow()
    order = [("file", "ascending"), ("time", "ascending")]
    assert got.sort_by(order).to_pydict() == query.to_arrow().sort_by(order).to_pydict()


@pytest.mark.spark
def test_arriving_files(spark: SparkSession, tmp_path: Path) -> None:
    """A stream that stops and goes on; before the first file, too."""
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    x = noise(7, 4 * 8000)
    taps = [0.5, 0.25, 0.25]

    def query() -> Any:
        told = r"(?P<mic>\w)_(?P<start>\d+)"
        read = hp.read.wav(folder, pattern=told, rate="8kHz", clock="int", progress=hp.delayed("1s"))
        return read.fir(taps)

    def run() -> None:
        query().start(
            spark, to=hp.write.parquet(str(out)), checkpoint=str(tmp_path / "ckpt"), shards=2, trigger="available"
        ).wait()

    query()
    for k in range(4):
        write(folder / f"m_2026010112000{k}.wav", x[k * 8000 : (k + 1) * 8000], 8000)
        if k in (1, 3):
            run()
    got = hp.read.parquet(out, key="mic", time="time").to_arrow().sort_by("time")
    wanted = scipy.signal.lfilter(taps, 1, x)
    assert 2 * 8000 <= len(got) < len(x)  # the mark is a second behind the start of the last block
    np.testing.assert_allclose(got["value"].to_numpy(), wanted[: len(got)], atol=1e-15)
    write(folder / "m_20260101120004.wav", x[:8000], 16_000)
    with pytest.raises(Exception, match=r"m_20260101120004\.wav has every 62500ns from \d+ ns on, and the query reads"):
        run()
    assert os.path.isdir(out)
