"""MiniSEED and SAC: bit by bit, with the gaps and overlaps that a file has."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pymseed
import pytest
from tests.connect.formats import START, miniseed, nanoseconds, sac, samples

import hydrophone as hp
from hydrophone.connect import recording

ENCODINGS = pymseed.DataEncoding


@pytest.mark.parametrize(
    ("encoding", "kind", "dtype"),
    [
        (ENCODINGS.STEIM1, "i", np.int32),
        (ENCODINGS.STEIM2, "i", np.int32),
        (ENCODINGS.INT32, "i", np.int32),
        (ENCODINGS.FLOAT32, "f", np.float32),
        (ENCODINGS.FLOAT64, "d", np.float64),
    ],
)
def test_every_bit_of_every_encoding(
    tmp_path: Path, encoding: Any, kind: str, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "BLOCK", 333)
    rng = np.random.default_rng(1)
    x = (
        np.cumsum(rng.integers(-10_000, 10_000, 5000)).astype(dtype)
        if kind == "i"
        else rng.normal(size=5000).astype(dtype)
    )
    (tmp_path / "a.mseed").write_bytes(miniseed(x, 100.0, encoding=encoding, kind=kind))
    got = samples(hp.read.miniseed(tmp_path).to_arrow())
    assert got.dtype == dtype
    assert (got == x).all()
    # As libmseed's own trace list has it.
    traces = pymseed.MS3TraceList.from_file(str(tmp_path / "a.mseed"), unpack_data=True)
    assert (got == traces[0][0].np_datasamples).all()


def test_gaps_stay_and_records_in_any_order_are_placed(tmp_path: Path) -> None:
    x = np.arange(1000)
    early, late = miniseed(x[:400], 100.0), miniseed(x[600:], 100.0, START + 6 * 10**9)
    (tmp_path / "a.mseed").write_bytes(late + early)
    got = hp.read.miniseed(tmp_path).to_arrow()
    assert nanoseconds(got) == [START + k * 10**7 for k in (*range(400), *range(600, 1000))]
    assert samples(got).tolist() == [*range(400), *range(600, 1000)]
    held = hp.read.miniseed(tmp_path).difference().to_arrow()
    assert len(held) < 800  # a difference over the gap is none


def test_overlaps_are_there_as_they_are_and_told_where_they_matter(tmp_path: Path) -> None:
    (tmp_path / "a.mseed").write_bytes(miniseed(np.arange(400), 100.0) + miniseed(np.arange(400), 100.0, START + 10**9))
    assert len(hp.read.miniseed(tmp_path).to_arrow()) == 800
    with pytest.raises(hp.DataError, match=r"two segments of key \{.*'BHZ'\} overlap at 2026-01-01T12:00:01"):
        hp.read.miniseed(tmp_path).fir([1.0, 1.0]).to_arrow()


def test_a_clock_that_drifts_needs_snap(tmp_path: Path) -> None:
    """Records less than half a sample off go on; a run after a gap that is off the grid is told, or moved."""
    x = np.arange(300)
    records = miniseed(x[:100], 100.0) + miniseed(x[100:200], 100.0, START + 10**9 + 3_000_000)
    (tmp_path / "a.mseed").write_bytes(records)
    assert nanoseconds(hp.read.miniseed(tmp_path).to_arrow()) == [START + k * 10**7 for k in range(200)]
    (tmp_path / "a.mseed").write_bytes(records + miniseed(x[200:], 100.0, START + 5 * 10**9 + 3_000_000))
    with pytest.raises(hp.DataError, match="different grids"):
        hp.read.miniseed(tmp_path).to_arrow()
    got = nanoseconds(hp.read.miniseed(tmp_path, snap=True).to_arrow())
    assert got == [START + k * 10**7 for k in (*range(200), *range(500, 600))]


def test_channels_mix_in_one_file(tmp_path: Path) -> None:
    parts = [miniseed(np.arange(500) * k, 50.0 * k, name=name) for k, name in ((1, "B_H_Z"), (2, "H_H_N"))]
    size = min(map(len, parts))
    mixed = b"".join(p[i : i + 512] for i in range(0, size, 512) for p in parts) + b"".join(p[size:] for p in parts)
    (tmp_path / "a.mseed").write_bytes(mixed)
    got = hp.read.miniseed(tmp_path).to_arrow()
    assert got.column_names == ["network", "station", "location", "channel", "time", "value"]
    for k, channel in ((1, "BHZ"), (2, "HHN")):
        assert samples(got, channel=channel).tolist() == (np.arange(500) * k).tolist()


@pytest.mark.parametrize(("rate", "period"), [(0.1, 10_000_000_000), (3.0, None), (44_100.0, None)])
def test_rates_are_exact(tmp_path: Path, rate: float, period: int | None) -> None:
    (tmp_path / "a.mseed").write_bytes(miniseed(np.arange(50), rate))
    found = hp.read.miniseed(tmp_path).node.type.timebase.period
    assert found == (period or 10**9 / __import__("fractions").Fraction(rate))


def test_what_is_no_record_is_told_with_its_place(tmp_path: Path) -> None:
    good = miniseed(np.arange(500), 100.0)
    (tmp_path / "a.mseed").write_bytes(good + b"garbage" * 100)
    with pytest.raises(hp.DataError, match=rf"a\.mseed: no whole record at byte {len(good)} of {len(good) + 700}"):
        hp.read.miniseed(tmp_path)
    (tmp_path / "a.mseed").write_bytes(good + bytes(512))  # recorders fill up with zeros
    assert len(hp.read.miniseed(tmp_path).to_arrow()) == 500


# --- SAC ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", "<>")
def test_sac_in_either_order_of_bytes(tmp_path: Path, order: str) -> None:
    x = np.random.default_rng(1).normal(size=300).astype(np.float32)
    (tmp_path / "a.sac").write_bytes(sac(x, 100, order=order))
    got = hp.read.sac(tmp_path).to_arrow()
    assert (samples(got, network="XX", station="STA", location="10", channel="BHZ") == x).all()
    assert nanoseconds(got) == [
        START + 250_000_000 + k * 10**7 for k in range(300)
    ]  # 0.01 is no float32, and b is 0.25


def test_sac_headers_that_lie(tmp_path: Path) -> None:
    whole, path = sac(np.zeros(10), 100), tmp_path / "a.sac"
    for at, value, told in (
        (79 * 4, 11, "tells of 11 samples, and 10 are there"),
        (79 * 4, 9, "tells of 9 samples, and 10 are there"),
        (85 * 4, 2, "no evenly spaced time series"),
        (76 * 4, 99, "is no SAC file"),
        (0, 0, "a rate of 0 Hz is none"),
        (70 * 4, -7, "year -7, day 1 of its header is no date"),
    ):
        path.write_bytes(whole[:at] + struct.pack("<i", value) + whole[at + 4 :])
        with pytest.raises(hp.DataError, match=rf"read\.sac: .*a\.sac.*{told}"):
            hp.read.sac(path)
