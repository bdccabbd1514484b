"""Load shedding in a graph: which rows go, what is counted, how the factor follows congestion, and how a run is repeated."""

from __future__ import annotations

import hashlib
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hydrophone as hp
from hydrophone.engine.shedding import Shed
from hydrophone.errors import ParameterError
from hydrophone.model.row_hash import kept_rows, row_hashes

SCHEMA = pa.schema([("key", pa.int64()), ("ts", pa.int64()), ("n", pa.int64())])
MASK = 2**64 - 1


def numbers(first: int, count: int) -> pa.Table:
    at = np.arange(first, first + count)
    return pa.table({"key": at % 3, "ts": at // 2, "n": at}, schema=SCHEMA)


def pushed(name: str | None = "numbers", **options: Any) -> hp.Stream:
    given = {"progress": hp.ordered(), **options}
    return hp.from_arrow(SCHEMA, key="key", time="ts", sequence="n", name=name, **given)


def mixed(x: int) -> int:
    """The finaliser of splitmix64, in Python's own integers."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


# --- which rows ---------------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**62), st.integers()), max_size=20), st.text()
)
def test_the_hash_is_the_same_for_ever(given_rows: list[tuple[int, int, int]], name: str) -> None:
    """Replays of other versions shed the same rows: the hash is written down here once more, in plain Python."""
    given_rows = [(k, t, s & (2**62 - 1)) for k, t, s in given_rows]
    key, at, sequence = (np.array([r[i] for r in given_rows], np.int64) for i in range(3))
    start = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little")
    expected = []
    for row in given_rows:
        found = start
        for value in row:
            found = mixed(found ^ mixed(value & MASK))
        expected.append(found)
    assert row_hashes(name, [pa.array(key)], at, pa.array(sequence)).tolist() == expected


def test_the_rows_of_a_part_are_those_of_the_whole_whatever_else_is_in_it() -> None:
    """Also where a part has nulls, or none, in its sequence, and for texts, floats and dictionaries."""
    sequences = [
        pa.array([5, None, 7, 8], pa.int64()),
        pa.array(["a", None, "c", ""]),
        pa.array([0.5, 1.5, None, 2.5]),
        pa.array(["a", None, "c", "a"]).dictionary_encode(),
    ]
    at = np.array([3, 3, 4, 4])
    for sequence in sequences:
        whole = row_hashes("x", [pa.array(["k", "l", "k", "l"])], at, sequence)
        for row in range(4):
            part = row_hashes(
                "x", [pa.array(["k", "l", "k", "l"][row : row + 1])], at[row : row + 1], sequence.slice(row, 1)
            )
            assert part[0] == whole[row]


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_larger_factor_sheds_these_rows_and_more(one: float, other: float) -> None:
    hashes = row_hashes("x", [], np.arange(500))
    less, more = sorted([one, other])
    assert not (kept_rows(hashes, more) & ~kept_rows(hashes, less)).any()
    assert abs((~kept_rows(hashes, one)).mean() - one) < 0.12


# --- what is counted ------------------------------------------------------------------------------------------------------------


def test_main_late_and_skipped_are_the_input_and_progress_counts_all() -> None:
    rows, found = pushed(progress=hp.delayed(10)), list[pa.Table]()
    with hp.Graph(late=hp.late.drop(), shed=hp.shed.fixed(0.5)) as graph:
        graph.subscribe(rows, found.append)
        graph.push(rows, numbers(0, 1000))
        graph.push(rows, numbers(100, 50))  # all of them late
        (node,) = (n for n in graph.nodes() if n["operator"].startswith("source"))
        assert node["rows_in"] == 1050 and node["skipped"] > 400 and node["mark"] == 489
        assert node["rows_out"] == sum(map(len, found)) == 1050 - 50 - node["skipped"]


def test_shedding_everything_still_moves_the_mark() -> None:
    rows, found = pushed(), list[pa.Table]()
    with hp.Graph() as graph:
        graph.subscribe(rows.tumble(10).agg(n=hp.count()), found.append)
        graph.push(rows, numbers(0, 40))
        graph.shed(rows, hp.shed.fixed(1.0))
        graph.push(rows, numbers(40, 40))
        assert sum(sum(t["n"].to_pylist()) for t in found) == 40  # the window from 10 to 20 is final
        assert graph.nodes()[0]["mark"] == 39


def test_rows_that_are_there_for_a_mark_alone_stay() -> None:
    schema = pa.schema([("ts", pa.int64()), ("mark", pa.int64())])
    rows = hp.from_arrow(schema, time="ts", progress=hp.punctuated("mark"))
    found = list[pa.Table]()
    with hp.Graph(shed=hp.shed.fixed(1.0)) as graph:
        graph.subscribe(rows.tumble(10).agg(n=hp.count()), found.append)
        graph.push(rows, {"ts": [1, None], "mark": [None, 30]})
        assert graph.nodes()[0]["mark"] == 30 and graph.nodes()[0]["skipped"] == 1
    assert not found


def test_a_query_that_tolerates_less_bounds_what_its_source_sheds() -> None:
    rows = pushed()
    with hp.Graph(shed=hp.shed.fixed(0.75)) as graph:
        graph.subscribe(rows, lambda _: None)
        careful = graph.subscribe(rows.where(hp.col("n") > 5), lambda _: None, tolerance=0.25)
        graph.push(rows, numbers(0, 100))
        careful.unsubscribe(now=True)
        graph.push(rows, numbers(100, 100))
        assert graph.shed_factors(rows) == [(0, 0.25), (100, 0.75)]


# --- a run again ----------------------------------------------------------------------------------------------------------------


@settings(max_examples=10)
@given(st.lists(st.tuples(st.integers(1, 40), st.sampled_from([0.0, 0.25, 0.5, 1.0])), max_size=12), st.data())
def test_a_pinned_run_sheds_the_same_rows_in_any_chunking(turns: list[tuple[int, float]], data: st.DataObject) -> None:
    rows, first, again = pushed(), list[pa.Table](), list[pa.Table]()
    total = sum(count for count, _ in turns)
    with hp.Graph() as graph:
        graph.subscribe(rows, first.append)
        at = 0
        for count, factor in turns:
            graph.shed(rows, hp.shed.fixed(factor))
            graph.push(rows, numbers(at, count))
            at += count
        changes = graph.shed_factors(rows)
    with hp.Graph(shed=hp.shed.pinned(changes)) as graph:
        graph.subscribe(rows, again.append)
        at = 0
        while at < total:
            count = data.draw(st.integers(1, total - at))
            graph.push(rows, numbers(at, count))
            at += count
        assert graph.shed_factors(rows) == changes

    def shown(tables: list[pa.Table]) -> list[int]:
        return [v for t in tables for v in t["n"].to_pylist()]

    assert shown(first) == shown(again)


# --- congestion -----------------------------------------------------------------------------------------------------------------


class Paced(hp.Source):
    """Rows that come by the clock, more than a slow query can take; times are those of the clock since the beginning."""

    schema = SCHEMA

    def __init__(self, seconds: float, rate: int) -> None:
        self.seconds, self.rate = seconds, rate

    def open(self) -> None:
        self.began, self.given = time.monotonic(), 0

    def read(self, limit: int) -> Any:
        passed = time.monotonic() - self.began
        count = min(limit, int(min(passed, self.seconds) * self.rate) - self.given)
        if count <= 0:
            return self.END if passed >= self.seconds else None
        self.given += count
        at = np.arange(self.given - count, self.given)
        return pa.table({"key": at % 3, "ts": at, "n": at}, schema=SCHEMA)


def test_an_overloaded_graph_sheds_until_it_keeps_up_and_says_so() -> None:
    """A sink that takes 0.2 ms for a row, and 10,000 rows a second: one half and more must go."""
    paced = hp.read.data(Paced(1.5, 10_000), key="key", time="ts", sequence="n", progress=hp.ordered(), name="paced")
    given_rows: list[int] = []

    def slow(table: pa.Table) -> None:
        time.sleep(0.0002 * len(table))
        given_rows.append(len(table))

    with hp.Graph(shed=hp.shed.adaptive("50ms"), rows=200, queue=4) as graph:
        subscription = graph.subscribe(paced, slow)
        other = graph.subscribe(paced, lambda _: None)
        graph.run()
        factors = [factor for _, factor in graph.shed_factors(paced)]
        assert graph.nodes()[0]["skipped"] == 15_000 - sum(given_rows)
    assert subscription.error is None and other.rows == sum(given_rows) < 12_000 and max(factors) > 0.3


def test_the_factor_falls_again_when_the_congestion_is_over() -> None:
    control = hp.shed.adaptive("50ms", most=0.75).controller()
    up = [control.next(4.0) for _ in range(5)]
    down = [control.next(0.1) for _ in range(80)]
    assert up == sorted(up) and up[-1] == 0.75 and down == sorted(down, reverse=True) and down[-1] == 0.0
    assert control.next(None) == 0.0


# --- what is refused ------------------------------------------------------------------------------------------------------------


def test_what_is_no_policy_is_refused() -> None:
    rows = pushed()
    for wrong, said in (
        (lambda: hp.shed.fixed(1.5), "factor must be between 0 and 1"),
        (lambda: hp.shed.fixed(True), "factor must be between 0 and 1"),
        (lambda: hp.shed.adaptive("0s"), "target must be positive"),
        (lambda: hp.shed.adaptive("1s", most=2), "most must be between"),
        (lambda: hp.shed.fixed(0.5, strategy="some"), "strategy must be"),  # type: ignore[arg-type]
        (lambda: hp.shed.pinned([(5, 0.5), (2, 0.1)]), "row numbers must rise"),
        (lambda: hp.Graph(shed=0.5), "shed must be a policy"),  # type: ignore[arg-type]
        (lambda: hp.Graph().subscribe(rows, print, tolerance=2), "tolerance must be between 0 and 1"),
    ):
        with pytest.raises(ParameterError, match=said):
            wrong()  # type: ignore[no-untyped-call]
    assert isinstance(hp.shed.fixed(0.5), Shed)


# --- one query and not the others -----------------------------------------------------------------------------------------------


class Watched:
    """A query of a graph and what it gave."""

    def __init__(self, graph: hp.Graph, query: hp.Stream, **options: Any) -> None:
        self.found: list[pa.Table] = []
        self.subscription = graph.subscribe(query, self.found.append, **options)

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(row for t in self.found for row in zip(*t.to_pydict().values(), strict=True))


def answer_over(query: Any, table: pa.Table) -> list[tuple[Any, ...]]:
    """The answer of a query by itself."""
    alone = query(hp.from_arrow(table, key="key", time="ts", sequence="n", progress=hp.ordered())).to_arrow()
    return sorted(zip(*alone.to_pydict().values(), strict=True))


def left(table: pa.Table, factor: float) -> pa.Table:
    """The rows that stay."""
    hashes = row_hashes("numbers", [table["key"]], table["ts"].to_numpy(), table["n"])
    return table.filter(pa.array(kept_rows(hashes, factor)))


def test_queries_lose_as_much_as_they_tolerate_and_share_what_they_have_in_common() -> None:
    """Each gives its answer over the rows that were kept where its own part begins; what is shared gets all rows."""
    rows, data = pushed(), numbers(0, 3000)
    even = lambda s: s.where(hp.col("n") % 2 == 0)  # noqa: E731
    queries = {
        0.9: lambda s: even(s).tumble(50).agg(n=hp.count(), sum=hp.sum("n")),
        0.5: lambda s: even(s).tumble(70).agg(n=hp.count(), last=hp.last("n")),
        0.0: lambda s: s.tumble(30).agg(n=hp.count()),
    }
    with hp.Graph(shed=hp.shed.fixed(0.3, strategy="tolerance")) as graph:
        watched = {t: Watched(graph, query(rows), tolerance=t) for t, query in queries.items()}
        for start in range(0, 3000, 70):
            graph.push(rows, data.slice(start, 70))
        assert sum(node["operator"].startswith("where") for node in graph.nodes()) == 1
        assert graph.nodes()[0]["skipped"] == 0
    # 0.3 of three queries is 0.9 in all: both come down to the same distance of 0.25 from what they tolerate.
    for tolerance, factor in ((0.9, 0.65), (0.5, 0.25), (0.0, 0.0)):
        one = watched[tolerance]
        assert one.rows() == answer_over(queries[tolerance], left(data, factor))
        assert (one.subscription.skipped > 0) == (factor > 0)


@pytest.mark.parametrize("scheduler", [hp.DepthFirst(), hp.OperatorThreads()])
def test_queries_of_a_family_lose_what_each_tolerates(scheduler: Any) -> None:
    """Filters that differ in a number run as one, and yet each has a gate of its own; also where rows of earlier turns still wait."""
    rows, data = pushed(), numbers(0, 2000)
    queries = {t: lambda s, least=least: s.where(hp.col("n") >= least) for t, least in ((0.8, 100), (0.4, 300))}
    with hp.Graph(shed=hp.shed.fixed(0.4, strategy="tolerance"), scheduler=scheduler) as graph:
        watched = {t: Watched(graph, query(rows), tolerance=t) for t, query in queries.items()}
        for start in range(0, 1000, 50):
            graph.push(rows, data.slice(start, 50))
        graph.shed(rows, None)
        for start in range(1000, 2000, 50):
            graph.push(rows, data.slice(start, 50))
    # 0.4 of two queries is 0.8 in all: 0.6 and 0.2 are equally far from what they tolerate.
    for tolerance, factor in ((0.8, 0.6), (0.4, 0.2)):
        kept = pa.concat_tables([left(data.slice(0, 1000), factor), data.slice(1000)])
        assert watched[tolerance].rows() == answer_over(queries[tolerance], kept)


def test_the_straggler_alone_loses_rows() -> None:
    rows, data = pushed(), numbers(0, 2000)
    quick = lambda s: s.tumble(50).agg(n=hp.count())  # noqa: E731
    with hp.Graph(shed=hp.shed.fixed(0.5, strategy="straggler")) as graph:
        first = Watched(graph, quick(rows))

        def slow(table: pa.Table) -> None:
            time.sleep(0.1)  # much more than the other query costs, on a busy machine too

        straggler = graph.subscribe(rows.where(hp.col("n") >= 0), slow, tolerance=0.25)
        for start in range(0, 2000, 100):
            graph.push(rows, data.slice(start, 100))
        assert straggler.skipped > 300 and straggler.rows + straggler.skipped == 2000
    assert first.subscription.skipped in (0, *range(30, 70))  # at most in the first turn, before costs are known
    graph.close()


def test_what_has_lost_rows_serves_nobody_who_needs_all_of_them() -> None:
    """An integral that runs since the first row, and has lost some, is not shared with a query that comes later."""
    rows = pushed()
    total = rows.signal("n").sample(1, fill=hp.hold(max_gap=5)).integrate()
    with hp.Graph(shed=hp.shed.fixed(0.5, strategy="tolerance")) as graph:
        graph.subscribe(total, lambda _: None)
        graph.push(rows, pa.table({"key": [0] * 50, "ts": range(50), "n": range(50)}, schema=SCHEMA))
        with pytest.raises(hp.PlanError, match="integrate"):
            graph.subscribe(total, lambda _: None)


@pytest.mark.parametrize("read", [[], ["v"]])
def test_a_sequence_that_no_operator_reads_stays_with_its_source(read: list[str]) -> None:
    rows = pa.table({"ts": [1, 1], "n": [1, 2], "v": [2.0, 1.0]})
    stream = hp.from_arrow(rows, time="ts", sequence="n", progress=hp.ordered())
    found = stream.tumble(10).agg(n=hp.count(), **{name: hp.sum(name) for name in read}).to_arrow()
    assert found["n"].to_pylist() == [2] and all(found[name].to_pylist() == [3.0] for name in read)
