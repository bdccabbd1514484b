"""What `describe`, `head` and ``hydrophone inspect`` say."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import soundfile

import hydrophone as hp
from hydrophone.cli import main


def by_key(report: Any) -> dict[str, dict[str, Any]]:
    return {row["k"]: row for row in report.table.to_pylist()}


def test_events_against_a_plain_count() -> None:
    """Keys in any order, with every kind of fault, counted one by one."""
    rng = np.random.default_rng(1)
    keys, times = rng.choice(["a", "b", "c"], 600), np.zeros(600, np.int64)
    for key in "abc":
        at = np.flatnonzero(keys == key)
        step = rng.choice([0, 10, 10, 10, 10, 10, 100], len(at))
        times[at] = np.cumsum(step)
        swap = rng.choice(len(at) - 1, 5, replace=False)
        times[at[swap]], times[at[swap + 1]] = times[at[swap + 1]], times[at[swap]].copy()
    got = by_key(hp.from_arrow(pa.table({"k": keys, "t": times}), key="k", time="t").describe())
    for key in "abc":
        came = times[keys == key].tolist()
        steps = np.diff(sorted(came))
        row = got[key]
        assert (row["rows"], row["first"], row["last"]) == (len(came), min(came), max(came))
        assert row["duplicates"] == sum(s == 0 for s in steps)
        assert row["gaps"] == sum(s > 15 for s in steps)
        assert row["longest_gap"] == max(steps)
        assert row["back_jumps"] == sum(b < a for a, b in pairwise(came))
        assert row["rate"] == 1e8


def test_uniform_signals_say_what_is_missing_and_what_is_twice() -> None:
    values = [[1.0] * 10, [1.0] * 10, [1.0] * 5, [1.0] * 4]
    table = pa.table({"k": ["a"] * 4, "t": [0, 150, 100, 160], "values": values})
    got = by_key(hp.from_segments(table, key="k", time="t", period=10).describe())["a"]
    # 0 to 100, 100 to 150, 150 to 250 and inside it 160 to 200.
    assert (got["rows"], got["first"], got["last"], got["rate"]) == (29, 0, 240, 1e8)
    assert (got["gaps"], got["longest_gap"], got["duplicates"]) == (0, 0, 4)
    apart = pa.table({"k": ["a", "a", "b"], "t": [0, 150, 7], "values": [[1.0] * 10, [1.0] * 10, [1.0]]})
    got = by_key(hp.from_segments(apart, key="k", time="t", period=1).describe())
    assert (got["a"]["gaps"], got["a"]["longest_gap"]) == (1, 140)
    assert (got["b"]["gaps"], got["b"]["rows"]) == (0, 1)


def test_nothing_and_a_fraction_of_a_nanosecond() -> None:
    assert len(hp.from_arrow(pa.table({"t": pa.array([], pa.int64())}), time="t").describe().table) == 0
    blocks = hp.from_numpy(np.zeros(200_000), rate="44.1kHz").describe().table
    assert blocks.to_pylist() == [
        {
            "rows": 200_000,
            "first": 0,
            "last": 199_999 * 10**7 // 441,
            "rate": pytest.approx(44_100),
            "gaps": 0,
            "longest_gap": 0,
            "duplicates": 0,
            "back_jumps": 0,
        }
    ]


def test_a_report_is_read_by_people() -> None:
    rows = pa.table({"k": [f"<{i:02}>" for i in range(30)] * 2, "t": np.arange(60)})
    report = hp.from_arrow(rows, key="k", time="t").describe()
    assert repr(report).splitlines()[0].split() == report.table.column_names
    assert repr(report).splitlines()[-1] == "and 10 more"
    assert "<td>&lt;00&gt;</td>" in report._repr_html_()


def test_head_stops_early() -> None:
    query = hp.from_numpy({"a": np.arange(10.0), "b": np.arange(10.0)}, rate="1kHz")
    assert query.head(3)["value"].to_pylist() == [0.0, 1.0, 2.0]
    assert len(query.head(100)) == 20
    assert len(query.head(0)) == 0
    with pytest.raises(hp.ParameterError, match="head: rows"):
        query.head(-1)


def test_inspect_from_the_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        soundfile.write(tmp_path / f"{name}.wav", np.zeros(441), 44_100)
    assert main(["inspect", str(tmp_path)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert "2 files, <UniformSignal(float64, 44100 Hz) by file>" in told[0]
    assert told[2].split()[:3] == ["a", "441", "0"]
    hp.from_arrow(pa.table({"s": [1, 1], "ts": [0, 5]}), key="s", time="ts").to_parquet(tmp_path / "t.parquet")
    assert main(["inspect", str(tmp_path / "t.parquet"), "--time", "ts", "--key", "s"]) == 0
    assert "1 files" in capsys.readouterr().out
    assert main(["inspect", str(tmp_path / "t.parquet")]) == 2
    assert "which column has the times?" in capsys.readouterr().err
    assert main(["inspect", str(tmp_path / "nowhere")]) == 1
    (tmp_path / "c.wav").write_bytes(b"RIFF")
    assert main(["inspect", str(tmp_path / "c.wav")]) == 1
    assert "c.wav" in capsys.readouterr().err
