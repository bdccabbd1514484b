"""Queries of the TrillDSP paper: ours and the peers' ways on Spark, GNU Octave and R give one answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from hydrophone.bench import trill, trill_spark
from hydrophone.bench.harness import Case, Timed, digest
from hydrophone.bench.peers import expert_numpy, outside


@pytest.mark.spark
@pytest.mark.parametrize(
    "cases",
    [
        partial(trill_spark.correlation, True, trill.PATTERN),
        pytest.param(
            partial(trill_spark.interpolation, True, trill.extreme, (trill.LOW, trill.HIGH)), marks=pytest.mark.soak
        ),
    ],
    ids=["query 3", "query 4"],
)
def test_ways_on_spark_agree(spark: Any, monkeypatch: pytest.MonkeyPatch, cases: Callable[[], Iterator[Case]]) -> None:
    monkeypatch.setattr(trill_spark, "KEYS", 200)
    case = next(lakes := cases())  # the files are there until it is asked for the next
    answers = [way() for way in (case.ours, *case.also.values(), *case.peers.values())]
    assert len(answers) == 5
    assert answers[0][0] > 0
    assert len({digest(a) for a in answers}) == 1
    assert list(lakes) == []


def test_programs_outside_give_the_answers_of_numpy() -> None:
    rng, keys = np.random.default_rng(3), 50
    few, many = rng.random(keys * 100), rng.random(keys * 397)
    correlated = outside.correlate(many, keys, trill.PATTERN)
    added = outside.interpolate_add_filter(few, many, keys, 0.2, 1.8)
    wanted = [
        expert_numpy.correlate(many, keys, trill.PATTERN),
        expert_numpy.interpolate_add_filter(few, many, keys, lambda x: (x < 0.2) | (x > 1.8)),
    ]
    overlapped = outside.overlap_add(many, keys, 64, 16)
    wanted.append(expert_numpy.overlap_add(many, keys, 64, 16))
    assert all(answer[0] > 0 for answer in wanted)
    for peers, answer in zip((correlated, added, overlapped), wanted, strict=True):
        for name, run in peers.items():
            found = run()
            assert isinstance(found, Timed), name
            assert digest(found.answer) == digest(answer), name
