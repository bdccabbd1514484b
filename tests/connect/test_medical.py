"""EDF, BDF and WFDB: equal to the libraries of the field."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyedflib
import pytest
import wfdb
from tests.connect.formats import nanoseconds, samples

import hydrophone as hp
from hydrophone.connect import recording

EDF = Path(pyedflib.__file__).parent / "tests" / "data"


@pytest.mark.parametrize("name", sorted(p.name for p in EDF.glob("*.[eb]df")))
def test_the_files_that_pyedflib_carries(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "BLOCK", 10_007)
    path = EDF / name
    got, stored = (hp.read.edf(path, dtype=d).to_arrow("segments") for d in ("float64", "int32"))
    with pyedflib.EdfReader(str(path)) as theirs:
        labels = theirs.getSignalLabels()
        # EDFlib counts the fraction in 100 ns, which getStartdatetime takes for 10 ns.
        fraction = dt.timedelta(microseconds=theirs.starttime_subsecond // 10)
        start = theirs.getStartdatetime().replace(microsecond=0) + fraction
        physical = [theirs.readSignal(i) for i in range(theirs.signals_in_file)]
        digital = [theirs.readSignal(i, digital=True) for i in range(theirs.signals_in_file)]
    seen: dict[str, int] = {}
    for label, x, d in zip(labels, physical, digital, strict=True):
        seen[label] = seen.get(label, 0) + 1
        channel = label if seen[label] == 1 else f"{label} {seen[label]}"
        assert (whole(got, channel) == x).all()
        assert (whole(stored, channel) == d).all()
    begin = min(got["time"].to_pylist()).to_pydatetime(warn=False)
    assert begin == start


def whole(segments: pa.Table, channel: str) -> np.ndarray[Any, Any]:
    mine = segments.filter(pa.compute.equal(segments["channel"], channel)).sort_by("time")
    return mine["values"].combine_chunks().flatten().to_numpy()


def test_signals_of_several_rates_in_one_file(tmp_path: Path) -> None:
    with pyedflib.EdfWriter(str(tmp_path / "a.edf"), 2) as writer:
        writer.setSignalHeaders(
            [pyedflib.highlevel.make_signal_header(n, sample_frequency=r) for n, r in (("x", 256), ("y", 3))]
        )
        writer.setStartdatetime(dt.datetime(2026, 1, 1))
        writer.writeSamples([np.zeros(512), np.ones(6)])
    got = hp.read.edf(tmp_path).to_arrow()
    mine = got.filter(pa.compute.equal(got["channel"], "y"))
    assert [t - nanoseconds(mine)[0] for t in nanoseconds(mine)] == [k * 10**9 // 3 for k in range(6)]
    assert len(got) == 518


def record(folder: Path, name: str, x: Any, **more: Any) -> None:
    count = x.shape[1]
    wfdb.wrsamp(
        name,
        fs=360,
        units=["mV"] * count,
        sig_name=[f"s{i}" for i in range(count)],
        p_signal=x,
        write_dir=str(folder),
        **more,
    )


@pytest.mark.parametrize("fmt", ["16", "24", "32", "80", "212"])
def test_records_as_wfdb_reads_them(tmp_path: Path, fmt: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "BLOCK", 301)
    x = np.random.default_rng(1).normal(size=(1000, 2))
    x[10:20, 1] = np.nan  # invalid samples
    record(tmp_path, "r", x, fmt=[fmt] * 2)
    theirs = wfdb.rdrecord(str(tmp_path / "r")).p_signal
    got = hp.read.wfdb(tmp_path).to_arrow()
    for i in range(2):
        np.testing.assert_array_equal(samples(got, file="r", channel=f"s{i}"), theirs[:, i])
    assert nanoseconds(got)[::2] == [k * 10**9 // 360 for k in range(1000)]


def test_annotations_are_intervals(tmp_path: Path) -> None:
    record(tmp_path, "r", np.zeros((3600, 1)), fmt=["16"], base_date=dt.date(2026, 1, 1), base_time=dt.time(12))
    at, symbols = np.array([36, 100, 360, 400, 720]), ["+", "N", "V", "N", "+"]
    wfdb.wrann("r", "atr", at, symbols, aux_note=["(N", "", "", "", "(AFIB"], fs=360, write_dir=str(tmp_path))
    read = hp.read.wfdb_annotations(tmp_path, clock="timestamp")
    got = read.to_arrow().sort_by("time")
    seconds = [t.timestamp() % 60 for t in got["time"].to_pylist()]
    assert seconds == pytest.approx(at / 360, abs=1e-6)
    lasts = dict(
        zip(zip(got["symbol"].to_pylist(), got["note"].to_pylist(), strict=True), got["end"].to_pylist(), strict=True)
    )
    assert lasts["+", "(N"].isoformat() == "2026-01-01T12:00:02"
    assert lasts["+", "(AFIB"].isoformat() == "2026-01-01T12:00:10"  # the end of the record
    # Beats by rhythm: what intervals are for.
    beats = read.where(hp.col("symbol") != "+").select("symbol")
    rhythm = read.where(hp.col("symbol") == "+").select("note")
    assert sorted(zip(*(beats.join(rhythm).to_arrow()[c].to_pylist() for c in ("symbol", "note")), strict=True)) == [
        ("N", "(N"),
        ("N", "(N"),
        ("V", "(N"),
    ]


def test_a_header_without_its_samples_is_told(tmp_path: Path) -> None:
    record(tmp_path, "r", np.zeros((100, 1)), fmt=["16"])
    (tmp_path / "r.dat").unlink()
    with pytest.raises(hp.DataError, match=r"read\.wfdb: .*r\.(hea|dat)"):
        hp.read.wfdb(tmp_path)
