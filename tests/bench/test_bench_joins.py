"""The benchmarks of joins: peers and forms of state that give the same answers."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from hydrophone.bench import asof, shj_snj
from hydrophone.bench.harness import digest
from hydrophone.bench.peers import asof_duckdb, asof_spark_sql, asof_tempo


def test_peers_of_the_as_of_join_agree() -> None:
    tables = asof.rows(20_000, 1, ["value"]), asof.rows(2_000, 2, ["c0", "c1"])
    found = asof.ours(*tables)
    assert found.num_rows == 20_000
    wanted = digest(asof._answer(found))
    assert digest(asof._polars(*tables)()) == wanted
    assert digest(asof._pandas(*tables)()) == wanted
    assert digest(asof._answer(asof_duckdb.asof(*tables))) == wanted


@pytest.mark.spark
@pytest.mark.parametrize("peer", [asof_spark_sql, asof_tempo], ids=["by hand", "dbl-tempo"])
def test_as_of_peers_on_spark_give_our_answer(spark: Any, peer: Any) -> None:
    tables = asof.rows(20_000, 1, ["value"]), asof.rows(2_000, 2, ["c0", "c1"])
    frames = [spark.createDataFrame(t) for t in tables]
    wanted = digest(asof._answer(asof.ours(*tables)))
    assert digest(asof._spark_answer(peer.asof(*frames), ["c0", "c1"])) == wanted


def test_why_a_peer_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tempo", None)
    assert "hydrophone[bench]" in (asof_tempo.absent() or "")


def test_forms_of_state_agree() -> None:
    sides = tuple(np.random.default_rng(seed).integers(0, 500, 1_000) for seed in (1, 2))
    answers = {form: shj_snj.joined(sides, form) for form in ("auto", "hash", "sorted", "list")}
    assert len(set(answers.values())) == 1
    short = {shj_snj.joined(sides, form, life=9, behind=1 << 40) for form in answers}
    near = [(i, j) for i in range(1_000) for j in range(max(i - 8, 0), min(i + 9, 1_000)) if sides[0][i] == sides[1][j]]
    assert short == {(len(near), float(sum(max(pair) for pair in near)))}
    assert answers["auto"][0] == sum(int((sides[1] == n).sum()) for n in sides[0])
