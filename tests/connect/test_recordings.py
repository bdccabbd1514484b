"""What holds for every format of recordings."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.connect.formats import FORMATS, START, Format, instants, nanoseconds, samples

import hydrophone as hp
from hydrophone.connect import recording

RATE = 1000
for_all_formats = pytest.mark.parametrize("form", FORMATS, ids=lambda f: f.name)


def noise(seed: int, count: int = 3000) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(-1000, 1000, count)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "BLOCK", 70)
    monkeypatch.setattr("hydrophone.engine.shares.SMALL_BYTES", 0)
    monkeypatch.setattr("hydrophone.engine.shares.BYTES_PER_SHARE", 500)


@for_all_formats
def test_samples_and_times(tmp_path: Path, form: Format, small_blocks: None) -> None:
    x = noise(1)
    form.write(tmp_path / form.file, x, RATE)
    read = form.read(tmp_path)
    got = read.to_arrow(threads=2)
    assert (samples(got) == x).all()
    assert nanoseconds(got) == instants(len(x), RATE)
    assert read.node.type.timebase == hp.Timebase.every("1kHz")
    assert (samples(form.read(tmp_path / form.file).to_arrow()) == x).all()


@for_all_formats
def test_ranges_join_without_a_seam(tmp_path: Path, form: Format, small_blocks: None) -> None:
    """Also as rows come, and from data that was sent to a task."""
    x = noise(2)
    form.write(tmp_path / form.file, x, RATE)
    query = form.read(tmp_path, progress=hp.ordered()).fir([0.5, 0.25, 0.25])
    wanted = np.convolve(x, [0.5, 0.25, 0.25])[: len(x)]
    assert np.allclose(samples(query.to_arrow()), wanted, atol=1e-12)
    assert np.allclose(samples(pa.concat_tables(query.batches(3))), wanted, atol=1e-12)
    data = query.node.topological()[0].data
    sent = pickle.loads(pickle.dumps(data))
    pieces = data.pieces(["time", "values"], recording.Times("time"))
    assert sum(p.rows for p in pieces) == len(x)
    assert all(p.known for p in pieces)
    assert [p.low for p in pieces] == sorted(p.low for p in pieces)
    assert pieces[-1].high == START + len(x) * 10**6
    found = [v for p in pieces[1:3] for t in sent.read(p.unit, [p.number], ["values"]) for v in t["values"][0].as_py()]
    assert found == x[pieces[0].rows : pieces[0].rows + len(found)].tolist()


@for_all_formats
def test_several_paths_are_one_signal(tmp_path: Path, form: Format) -> None:
    for folder in "ab":
        (tmp_path / folder).mkdir()
        form.write(tmp_path / folder / form.file, noise(ord(folder), 1000), RATE)
    read = form.read([tmp_path / "a" / form.file, str(tmp_path / "b")])
    got = read.to_arrow()
    if keyed_by_header(form):  # both are the same channel: they overlap as they are
        assert len(got) == 2000
    else:
        stem = form.file.partition(".")[0]
        for folder in "ab":
            assert (samples(got, file=f"{folder}/{stem}") == noise(ord(folder), 1000)).all()
    with pytest.raises(hp.ParameterError, match=f"there is no file or folder '{tmp_path}/c'"):
        form.read([tmp_path / "a", tmp_path / "c"])


def keyed_by_header(form: Format) -> bool:
    return form.name in ("miniseed", "sac")


@pytest.mark.parametrize(
    "form", [f for f in FORMATS if f.name != "binary"], ids=lambda f: f.name
)  # whose rate is declared
def test_files_of_another_rate(tmp_path: Path, form: Format) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    form.write(tmp_path / "a" / form.file, noise(1, 1000), RATE)
    form.write(tmp_path / "b" / form.file, noise(2, 1000), RATE // 2)
    with pytest.raises(
        hp.DataError, match=rf"{tmp_path}/b/{form.file} has every 2ms from {START} ns on, and the query reads every 1ms"
    ):
        form.read(tmp_path, rate="1kHz")
    if keyed_by_header(form):
        with pytest.raises(hp.DataError, match="segments of one key lie on different grids"):
            form.read(tmp_path).to_arrow()
    else:
        got = form.read(tmp_path).to_arrow()
        stem = form.file.partition(".")[0]
        for folder, rate in (("a", RATE), ("b", RATE // 2)):
            mine = got.filter(pa.compute.equal(got["file"], f"{folder}/{stem}"))
            assert nanoseconds(mine) == instants(1000, rate)


@for_all_formats
def test_a_file_that_is_cut_off_is_told_and_never_fewer_rows(tmp_path: Path, form: Format) -> None:
    """Wherever the cut is; but plain binary files can be told by half a frame alone."""
    (tmp_path / "whole").mkdir()
    form.write(tmp_path / "whole" / form.file, noise(3), RATE)
    cut = "a.dat" if form.name == "wfdb" else form.file
    raw = (tmp_path / "whole" / cut).read_bytes()
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    for size in [0, 1, 7, 100, 300, 513, len(raw) // 2 + 1, len(raw) - 513, len(raw) - 1]:
        if form.name == "binary" and size > 12 and size % 2 == 0:
            continue
        (tmp_path / "cut" / cut).write_bytes(raw[:size])
        with pytest.raises(hp.DataError, match=rf"read\.\w+: {tmp_path}/cut/{form.file}"):
            form.read(tmp_path / "cut").to_arrow()


@for_all_formats
def test_damage_is_an_error_or_the_samples(tmp_path: Path, form: Format) -> None:
    """Bytes of the header are overwritten: no crash, no error without the file's name, never another number of samples without a word."""
    form.write(tmp_path / form.file, noise(4), RATE)
    path = tmp_path / form.file
    raw = path.read_bytes()
    rng = np.random.default_rng(5)
    for _ in range(12):
        broken = bytearray(raw)
        at = int(rng.integers(0, min(len(raw), 700)))
        broken[at : at + 4] = rng.bytes(4)
        path.write_bytes(broken[: len(raw)])
        try:
            form.read(path, clock="int").to_arrow()
        except hp.HydrophoneError as error:
            assert form.file in str(error) or "grid" in str(error) or "channels" in str(error)


def test_a_list_of_paths_is_no_stream(tmp_path: Path) -> None:
    FORMATS[0].write(tmp_path / "a.wav", noise(1), RATE)
    data = hp.read.wav([tmp_path]).node.data
    with pytest.raises(hp.UnsupportedError, match="is a list of paths, and a stream follows one folder"):
        data.check_stream("x", None)


def test_tables_take_lists_of_paths_too(tmp_path: Path) -> None:
    for name in "ab":
        hp.from_arrow(pa.table({"k": [name], "t": [1], "v": [2.0]}), key="k", time="t").to_parquet(
            tmp_path / f"{name}.parquet"
        )
        hp.from_arrow(pa.table({"k": [name], "t": [1], "v": [2.0]}), key="k", time="t").to_csv(tmp_path / f"{name}.csv")
    for read, suffix in ((hp.read.parquet, "parquet"), (hp.read.csv, "csv")):
        paths = [tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}", tmp_path / f"a.{suffix}"]
        assert sorted(read(paths, key="k", time="t").to_arrow()["k"].to_pylist()) == ["a", "b"]
    with pytest.raises(hp.ParameterError, match="path must be a file, folder or pattern, or a list of these"):
        hp.read.parquet([], key="k", time="t")
