"""Pairs that progress on both of their times: results come before either side has passed the band."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from tests.spark.test_stateful import Rehearsal

import hydrophone as hp
from hydrophone.bench import joint
from hydrophone.bench.packets import ADDRESS, Link
from hydrophone.engine.local import Live
from hydrophone.errors import ParameterError

LEFT = pa.table({"t": [1, 5, 12, 21], "k": [0, 0, 0, 0]})
RIGHT = pa.table({"t": [3, 8, 15, 24], "k": [0, 0, 0, 0]})


def pairs(left: pa.Table = LEFT, right: pa.Table = RIGHT, by: str = "both") -> hp.Stream:
    a, b = (hp.from_arrow(t, key="k", time="t", progress=hp.ordered()) for t in (left, right))
    return a.band_join(b, before=0, after=1_000, by=by)


def counted(by: str = "both") -> hp.Stream:
    return pairs(by=by).key_by().tumble(10, by="both").agg(n=hp.count())


def told(live: Live) -> list[tuple[int, int, int]]:
    live.advance()
    return sorted((r["t"], r["t_right"], r["n"]) for p in live.pieces() for r in p.to_pylist())


def test_a_pair_of_windows_is_given_when_both_sides_have_passed_it() -> None:
    live = Live(counted().node, hp.late.error())
    live.rows(0, LEFT)
    live.rows(1, RIGHT.slice(0, 2))
    assert told(live) == []  # the right side is at 8, inside its first window
    live.rows(1, RIGHT.slice(2, 1))
    assert told(live) == [(0, 0, 3)]  # 1 with 3 and 8, 5 with 8; a thousand before the band ends
    live.rows(1, RIGHT.slice(3, 1))
    assert told(live) == [(0, 10, 2), (10, 10, 1)]


def test_without_joint_progress_the_band_must_pass() -> None:
    live = Live(joint.individual(counted()).node, hp.late.error())
    live.rows(0, LEFT)
    live.rows(1, RIGHT)
    assert told(live) == []
    live.end(0)
    live.end(1)
    assert len(told(live)) == 6


def test_joint_progress_travels_between_stages() -> None:
    stream = Rehearsal(counted(), 3, hp.late.error(), seed=1)
    stream.run({0: LEFT, 1: RIGHT})
    given = [r for t in stream.results for r in t.to_pylist()]
    assert sorted((r["t"], r["t_right"], r["n"]) for r in given) == [(0, 0, 3), (0, 10, 2), (10, 10, 1)]


def test_row_operators_keep_it_as_long_as_the_other_time_stays() -> None:
    both = pairs()
    for query in (both.where(hp.col("t") > 0), both.select("t_right"), both.with_columns(x=hp.col("t")), both.key_by()):
        assert query.node.paired == "t_right"
        assert query.tumble(10, by="both").agg(n=hp.count()).to_arrow().num_rows == 6
    assert both.key_by(other="t_right").node.paired == "other"
    lost = (
        both.select(),
        both.with_columns(t_right=hp.col("t_right") + 1),
        both.shift(5),
        pairs(by="left").key_by(),
        hp.union(both, both.with_columns(t_right=hp.col("t_right") + 1)),
    )
    for query in lost:
        with pytest.raises(ParameterError, match='tumble: by="both" needs pairs with both of their times'):
            query.tumble(10, by="both")
        with pytest.raises(ParameterError, match='sliding: by="both" needs pairs with both of their times'):
            query.sliding(10, every=5, by="both")
    with pytest.raises(ParameterError, match="sliding: every must be positive"):
        both.sliding(10, every=0, by="both")


def test_a_union_has_passed_what_all_have() -> None:
    late = pa.table({"t": [2, 9], "k": [0, 0]})
    third = hp.from_arrow(late, key="k", time="t", progress=hp.ordered())
    one = pairs()
    other = third.band_join(third, before=0, after=1_000, by="both")
    live = Live(hp.union(one, other).key_by().tumble(10, by="both").agg(n=hp.count()).node, hp.late.error())
    live.rows(0, LEFT)
    live.rows(1, RIGHT)
    live.rows(2, late)
    assert told(live) == []  # the third is at 9
    live.rows(2, pa.table({"t": [10], "k": [0]}))
    assert told(live) == [(0, 0, 6)]
    live.rows(2, pa.table({"t": [20], "k": [0]}))
    assert told(live) == [(0, 10, 4), (10, 10, 2)]


def test_windows_that_overlap_follow_both_marks_too() -> None:
    query = pairs().key_by().sliding(10, every=5, by="both").agg(n=hp.count())
    live = Live(query.node, hp.late.error())
    live.rows(0, LEFT)
    live.rows(1, RIGHT.slice(0, 3))
    early = told(live)  # both sides have passed 15
    a, b = LEFT["t"].to_pylist(), RIGHT["t"].to_pylist()[:3]
    starts = range(-5, 6, 5)
    brute = {
        (s, u, n)
        for s in starts
        for u in starts
        if (n := sum(s <= x < s + 10 and u <= y < u + 10 and x <= y for x in a for y in b))
    }
    assert set(early) == brute and len(early) == len(brute) > 4
    stream = Rehearsal(query, 2, hp.late.error(), seed=1)
    stream.run({0: LEFT, 1: RIGHT.slice(0, 3)})
    assert sorted((r["t"], r["t_right"], r["n"]) for p in stream.results for r in p.to_pylist()) == early


def test_a_plain_tumble_by_the_other_time_follows_both_marks_too() -> None:
    live = Live(pairs().key_by("t_right").tumble(10).agg(n=hp.count()).node, hp.late.error())
    live.rows(0, LEFT)
    live.rows(1, RIGHT.slice(0, 3))
    assert told(live) == [(0, 3, 1), (0, 8, 2)]


def test_times_on_a_clock() -> None:
    stamped = [t.set_column(0, "t", t["t"].cast(pa.timestamp("ns"))) for t in (LEFT, RIGHT)]
    query = pairs(*stamped).key_by().tumble(10, by="both").agg(n=hp.count())
    answer = query.to_arrow().sort_by([("t", "ascending"), ("t_right", "ascending")])
    assert answer["t_right"].type == pa.timestamp("ns")
    assert answer["t_right"].cast(pa.int64()).to_pylist() == [0, 10, 20, 10, 20, 20]
    assert answer["n"].to_pylist() == [3, 2, 2, 1, 1, 1]


def test_the_benchmark_sees_the_difference() -> None:
    links = [Link(50, 30, 5, reverse=i > 0, seed=i).packets().select("ts", *ADDRESS) for i in range(2)]
    one, other = (hp.from_arrow(p.table, time="ts", progress=hp.ordered()) for p in links)
    opened = one.band_join(other, on=ADDRESS, before=0, after="10s", by="both")
    ran = joint.both_marks("small", opened.key_by().tumble("500ms", by="both").agg(n=hp.count()), links)()
    ours, off = ran["ours"], ran[joint.OFF]
    assert ours.measured.answer == off.measured.answer
    assert max(ours.waits) <= 0.5 < 4 < np.mean(off.waits)
    assert ours.state < 0.7 * off.state


def test_marks_of_old_keys_are_none_of_new_ones_with_the_same_names() -> None:
    """The other time is the key already, and its windows become the key: another key of the same name and type."""
    left, right = (
        hp.from_arrow(pa.table({"t": times}), time="t", progress=hp.ordered())
        for times in ([0, 30, 31, 32, 33], [0, 3, 7, 40])
    )
    pairs = left.band_join(right, before=100, after=100, by="both").key_by("t_right")
    query = pairs.tumble(10, by="both").agg(n=hp.count())
    pieces = pa.concat_tables(query.batches(1))
    assert sorted(map(str, pieces.to_pylist())) == sorted(map(str, query.to_arrow().to_pylist()))
