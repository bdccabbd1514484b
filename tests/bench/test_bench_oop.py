"""The packets that the out-of-order benchmarks make, and their measurements in small."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import hydrophone as hp
from hydrophone.bench import buffered, oop, skew_picture, small_batches
from hydrophone.bench.packets import SECOND, Link


def test_packets_come_as_told() -> None:
    link = Link(rate=1_000, seconds=20, flows=50, skew=3, jitter=2, lulls=[(5, 8)], bursts=[(10, 12, 4)], seed=1)
    sent = link.packets()
    time = sent.table["ts"].to_numpy()
    late = sent.arrival - time
    assert len(time) == pytest.approx(1_000 * (20 - 3) + 3 * 1_000 * 2, rel=0.05)
    assert not ((time >= 5 * SECOND) & (time < 8 * SECOND)).any()
    assert late.min() >= 3 * SECOND and late.max() <= 5 * SECOND
    assert (np.diff(sent.arrival) >= 0).all() and (np.diff(time) < 0).any()
    assert link.packets().table.equals(sent.table)


def test_answers_go_back() -> None:
    asked, answered = (Link(500, 4, 5, reverse=r).packets().table for r in (False, True))
    pairs = [
        {tuple(r) for r in zip(*(t[n].to_pylist() for n in names), strict=True)}
        for t, names in ((asked, ("src", "dst", "sport", "dport")), (answered, ("dst", "src", "dport", "sport")))
    ]
    assert pairs[0] == pairs[1]
    assert len(pairs[0]) == 5


def test_both_ways_agree_and_ours_holds_less() -> None:
    links = [Link(500, 30, 20, skew=s, seed=i).packets().select("ts", "src") for i, s in enumerate((0, 10))]
    query = hp.union(*(oop.stream(p, ("src",)) for p in links)).tumble("5s").agg(n=hp.count())
    ours, twin = (oop.drive(query, links, order) for order in ("any", "enforce"))
    assert ours.answer == twin.answer
    assert sum(ours.answer) > 0
    assert ours.peak < 0.3 * twin.peak


def test_another_row_is_another_answer() -> None:
    table = Link(100, 1, 5).packets().table
    one, other = oop.Found(), oop.Found()
    one.add([table])
    other.add([table.slice(50), table.slice(0, 50)])
    assert one.answer == other.answer
    other = oop.Found()
    other.add([table.slice(1), table.slice(1, 1)])
    assert one.answer != other.answer


def test_the_picture_shows_every_skew(tmp_path: Path) -> None:
    lines = [
        json.dumps({"bench": "oop_skew", "case": f"state, skew {s} s, 10 packets/s", "ours_s": 1.0, "peer_s": s})
        for s in (1, 5, 40)
    ]
    other = json.dumps({"bench": "oop_skew", "case": "processor time, skew 1 s", "ours_s": 1.0, "peer_s": 2.0})
    assert skew_picture.picture([*lines, other], tmp_path / "skew.png") == 3
    assert (tmp_path / "skew.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", small_batches.QUERIES)
def test_small_batches_give_the_same_answer(name: str) -> None:
    links = [small_batches.stream(Link(300, 8, 400, seed=seed).packets().table) for seed in (1, 2)]
    query = small_batches.QUERIES[name](*links)
    assert sum(small_batches.at_once(query)[:2]) > 0
    assert small_batches.live(query) == small_batches.at_once(query)


def test_windows_that_hold_and_that_merge_agree() -> None:
    found = buffered.in_turn(50, 3, 1)
    assert len({answer for _, _, answer in found.values()}) == 1
    assert sum(found["ours"][2]) > 0
