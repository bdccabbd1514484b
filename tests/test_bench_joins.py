"""The benchmarks of joins: peers and forms of state that give the same answers."""

from __future__ import annotations

import numpy as np

from hydrophone.bench import asof, shj_snj
from hydrophone.bench.harness import digest
from hydrophone.bench.peers import asof_duckdb


def test_peers_of_the_as_of_join_agree() -> None:
    tables = asof.rows(20_000, 1, ["value"]), asof.rows(2_000, 2, ["c0", "c1"])
    found = asof.ours(*tables)
    assert found.num_rows == 20_000
    wanted = digest(asof._answer(found))
    assert digest(asof._polars(*tables)()) == wanted
    assert digest(asof._pandas(*tables)()) == wanted
    assert digest(asof._answer(asof_duckdb.asof(*tables))) == wanted


def test_forms_of_state_agree() -> None:
    sides = tuple(np.random.default_rng(seed).integers(0, 500, 1_000) for seed in (1, 2))
    answers = {form: shj_snj.joined(sides, form) for form in ("auto", "hash", "sorted", "list")}
    assert len(set(answers.values())) == 1
    assert answers["auto"][0] == sum(int((sides[1] == n).sum()) for n in sides[0])
