"""The benchmarks: what they print, and peers that give the answers of the local engine."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import hydrophone as hp
from hydrophone.bench import __main__ as bench
from hydrophone.bench import grouped_batch, lake
from hydrophone.bench.harness import Case, Peak, Turns, digest, measure, summary
from hydrophone.bench.peers import numpy_script
from hydrophone.bench.registry import BENCHES
from hydrophone.connect.parquet import ParquetData

FIELDS = [
    "bench",
    "case",
    "ours_s",
    "peer",
    "peer_s",
    "ratio",
    "ours_digest",
    "peer_digest",
    "ours_peak_mb",
    "peer_peak_mb",
]


def test_a_result_has_these_fields() -> None:
    (result,) = measure("b", Case("c", lambda: (1.0,), {"p": lambda: (1.0 + 1e-9,)}, runs=1))
    assert list(json.loads(result.as_json())) == FIELDS
    assert result.agrees


def test_at_least_one_run(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.main(["run", "local_engine", "--runs", "0"])
    assert "must be at least 1, got '0'" in capsys.readouterr().err


def test_the_list_says_what_each_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(BENCHES)
    assert all(len(line.split()) > 3 and "`" not in line.split()[1] for line in lines)


def test_the_numpy_script_gives_our_answer(tmp_path: Path) -> None:
    grouped_batch.write_lake(tmp_path, rows=3_200, keys=10)
    samples = hp.read.parquet(tmp_path, key="sensor", time="time").signal("value").sample(grouped_batch.PERIOD)
    ours = samples.fir(grouped_batch.TAPS).to_arrow()["value"].to_numpy()
    assert digest((ours.size, ours.sum(), (ours * ours).sum())) == digest(
        numpy_script.fir(tmp_path, grouped_batch.TAPS)
    )
    ours = grouped_batch.cleaned(samples).to_arrow()["value"].to_numpy()
    theirs = numpy_script.clean(tmp_path, grouped_batch.SIZE, grouped_batch.TOP)
    assert digest((ours.size, ours.sum(), (ours * ours).sum())) == digest(theirs)
    spectra = samples.window(32, hop=16).rfft().to_arrow()["values"].combine_chunks().flatten()
    power = sum(summary(part.flatten().to_numpy())[2] for part in spectra)
    assert power == pytest.approx(numpy_script.stft(tmp_path, 32)[2])


@pytest.mark.parametrize("overlap", [1.0, 10.0])
def test_files_overlap_as_told(tmp_path: Path, overlap: float) -> None:
    lake.write_lake(tmp_path, rows=64_000, keys=10, overlap=overlap)
    spans = []
    for file in ParquetData(str(tmp_path)).files[12:24]:
        time = hp.read.parquet(file.path, key="sensor", time="time").to_arrow()["time"].to_numpy()
        spans.append((np.ptp(time) / grouped_batch.PERIOD + 1) / (6_400 / lake.FILES))
    assert np.mean(spans) == pytest.approx(overlap, rel=0.05)


def test_ways_of_ours_share_the_peers() -> None:
    turns: list[str] = []

    def way(name: str, answer: float) -> Callable[[], Sequence[float]]:
        return lambda: turns.append(name) or (answer,)

    case = Case("one", way("one", 1.0), {"p": way("p", 1.0)}, runs=2, also={"two": way("two", 2.0)})
    one, two = measure("b", case)
    assert turns == ["one", "two", "p"] * 3
    assert (one.case, one.peer, one.agrees) == ("one", "p", True)
    assert (two.case, two.peer, two.agrees) == ("two", "p", False)


def test_memory_that_is_held_for_a_moment_is_seen() -> None:
    with Peak() as memory:
        held = np.ones(100_000_000, np.uint8)
        time.sleep(0.04)
        del held
    assert 90 < memory.megabytes < 150


def test_a_case_may_take_turns_by_itself() -> None:
    found = {"ours": ([2.0, 1.0, 3.0], (1.0,)), "p": ([4.0, 9.0, 5.0], (1.0,)), "q": ([1.0], (2.0,))}
    p, q = measure("b", Turns("c", lambda: found))
    assert (p.peer, p.ours_s, p.peer_s, p.ratio, p.agrees) == ("p", 2.0, 5.0, 2.5, True)
    assert (q.peer, q.ratio, q.agrees) == ("q", 0.5, False)


def test_results_are_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = Case("c", lambda: (1.0,), {"p": lambda: (1.0,), "q": lambda: (2.0,)}, runs=1)
    (tmp_path / "results").write_text("\n".join(r.as_json() for r in measure("b", case)) + "\n")
    assert bench.main(["chart", str(tmp_path / "results"), "--to", str(tmp_path / "chart.png")]) == 0
    assert "2 bars" in capsys.readouterr().out
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("text", "says"), [("", "no results"), ("ours 3 s\n", "line 1 is no result: 'ours 3 s'")])
def test_what_is_no_result_is_not_drawn(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "results").write_text(text)
    with pytest.raises(hp.DataError, match=says):
        bench.main(["chart", str(tmp_path / "results"), "--to", str(tmp_path / "chart.png")])
    assert not (tmp_path / "chart.png").exists()


def test_peers_are_chosen_by_name(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def never() -> tuple[float]:
        raise AssertionError("not asked for")

    case = Case("c", lambda: (1.0,), {"quick": lambda: (1.0,), "slow": never}, runs=1)
    monkeypatch.setattr(bench, "load", lambda name: lambda quick: iter([case]))
    assert bench.main(["run", "local_engine", "--json", "--peer", "qu"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["peer"] == "quick"


def test_a_pattern_that_is_none_or_matches_nothing_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit, match="2"):
        bench.main(["run", "local_engine", "--case", "("])
    assert "'(' is no regular expression" in capsys.readouterr().err
    case = Case("slices, 100 keys", lambda: (1.0,), {"p": lambda: (1.0,)}, runs=1)
    monkeypatch.setattr(bench, "load", lambda name: lambda quick: iter([case]))
    with pytest.raises(hp.HydrophoneError, match=r"no case of local_engine matches 'shards'\n.*slices, 100 keys"):
        bench.main(["run", "local_engine", "--case", "shards"])


def test_a_name_chooses_among_ways_of_ours(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case("slices", lambda: (1.0,), {"p": lambda: (1.0,)}, runs=1, also={"shards": lambda: (1.0,)})
    monkeypatch.setattr(bench, "load", lambda name: lambda quick: iter([case]))
    assert bench.main(["run", "local_engine", "--json", "--case", "shards", "--runs", "2"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["case"] == "shards"
