"""Scores, against plain matching, and the referee's lists, against the truth they are written from."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from hydrophone.apps.soccer import field, referee
from hydrophone.apps.soccer.score import Occurrence, Score, compare, overlap, true_hits, true_shots
from hydrophone.apps.soccer.simulate import Match
from hydrophone.apps.soccer.truth import Truth
from hydrophone.errors import DataError

TRUTH = Truth(Match(seed=103, seconds=90))
UNTIL = field.KICK_OFFS[0] + 90 * field.PS


def test_matches_are_as_many_as_can_be() -> None:
    """For instants the earliest free one is best: no matching by any other order finds more."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        found, true = (
            [
                Occurrence("ab"[k], t, t)
                for t, k in zip(rng.integers(0, 40, 5).tolist(), rng.integers(0, 2, 5), strict=True)
            ]
            for _ in range(2)
        )
        best = max(
            sum(a.player == b.player and abs(a.start - b.start) <= 4 for a, b in zip(found, order, strict=True))
            for order in itertools.permutations(true)
        )
        assert compare(found, true, 4, 4) == Score(5, 5, best)


def test_scores_are_shares() -> None:
    score = Score(4, 5, 3) + Score(0, 1, 0)
    assert (score.precision, score.recall, score.f) == (0.75, 0.5, 0.6)
    assert str(Score(0, 0, 0)) == "100.0% 100.0% 100.0%"


def test_overlap_is_what_two_histograms_share() -> None:
    rng = np.random.default_rng(2)
    p, q = rng.random(7), rng.random(7)
    want = 1 - np.abs(p / p.sum() - q / q.sum()).sum() / 2
    assert overlap(dict(enumerate(p)), dict(enumerate(q))) == pytest.approx(want)
    assert overlap({}, {}) == 1
    assert overlap({}, {1: 1.0}) == 0


def test_lists_of_the_referee_are_read_as_they_are_written(tmp_path) -> None:
    """A list made from the truth, 4 s late as on the video, gives all of it with a lag of 3 to 5 s, and nothing without."""
    hits = true_hits(TRUTH, UNTIL)
    found = []
    for player in field.PLAYERS:
        mine = [h for h in hits if h.player == player]
        path = tmp_path / f"{player}.csv"
        lines = [(f"{referee.name_of(player)} {what}", h.start) for h in mine for what in ("Begin", "End")]
        referee.write_list(path, lines, 0, lag=4.0)
        found += referee.read_contacts(path, 0, player)
    assert compare(hits, found, early=5 * 10**9, late=-3 * 10**9) == Score(len(hits), len(hits), len(hits))
    assert compare(hits, [o for o in found if o.player == "A6"], 10**8, 10**8).right == 0
    shots = true_shots(TRUTH, UNTIL)
    referee.write_list(tmp_path / "shots.csv", [(referee.name_of(s.player), s.start) for s in shots], 0)
    read = referee.read_shots(tmp_path / "shots.csv", 0)
    assert len(read) == len(shots) > 0
    assert all(a.player == b.player and abs(a.start - b.start) <= 500_000 for a, b in zip(read, shots, strict=True))


def test_interruptions_are_paired_by_their_order(tmp_path) -> None:
    path = tmp_path / "stops.csv"
    second = field.KICK_OFFS[1] // 1000
    times = [
        ("Game Interruption Begin", 0),
        ("Game Interruption End", 3),
        ("Game Interruption Begin", 10),
        ("Game Interruption End", 12),
        ("Game Interruption Begin", 1700),
    ]
    referee.write_list(path, [(name, second + t * 10**9) for name, t in times], 1)
    assert "2;Game Interruption End;00:00:03.000" in path.read_text()
    found = referee.read_interruptions(path, 1, offset=-1.3)
    seconds = [[(v - field.KICK_OFFS[1]) / field.PS for v in found[n].to_pylist()] for n in ("start", "end")]
    assert np.allclose(seconds, [[-1.3, 8.7, 1698.7], [1.7, 10.7, 1791.7]])
    path.write_text(f"{referee.HEADER}\r\n1;Somebody;00:00:01.000;1;\r\n")
    with pytest.raises(DataError, match="nobody is called 'Somebody'"):
        referee.read_shots(path, 0)
    path.write_text(f"{referee.HEADER}\r\n1;Leo Langhans;one;1;\r\n")
    with pytest.raises(DataError, match="line 2: no time: 'one'"):
        referee.read_shots(path, 0)
