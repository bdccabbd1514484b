"""What a user can get wrong with temporal relations: refused when the query is built, with what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hydrophone as hp
from hydrophone.errors import HydrophoneError, ParameterError, PlanError, SignalTypeError


def points(**columns: Any) -> hp.Stream:
    table = pa.table({"k": ["a", "a", "b"], "t": [0, 10, 20], "v": [1.0, 2.0, 3.0], "s": ["x", "y", "z"], **columns})
    return hp.from_arrow(table, key="k", time="t")


def numbered() -> hp.Stream:
    return hp.from_arrow(pa.table({"t": [0, 1], "i": [0, 1], "v": [1.0, 2.0]}), time="t", sequence="i")


def lives() -> hp.Stream:
    return hp.from_arrow(pa.table({"k": ["a"], "t": [0], "e": [5], "v": [1.0]}), key="k", time="t", end="e")


def _custom(**changed: Any) -> Any:
    how = {"create": np.zeros, "add": np.add, "merge": np.add, "result": np.asarray}
    return hp.aggregate("v", **{**how, **changed})


BUILT: list[tuple[str, type[HydrophoneError], Callable[[], Any], tuple[str, ...]]] = [
    (
        "sliding-size",
        ParameterError,
        lambda: points().sliding(0, every=1).agg(n=hp.count()),
        ("size must be positive",),
    ),
    ("sliding-every", ParameterError, lambda: points().sliding(5, every=-1).agg(n=hp.count()), ("every must be",)),
    ("sliding-nothing", ParameterError, lambda: points().sliding(5, every=1).agg(), ("at least one aggregate",)),
    ("session-gap", ParameterError, lambda: points().session(0).agg(n=hp.count()), ("session: gap must be positive",)),
    ("agg-fill", ParameterError, lambda: points().tumble(5).agg(n=hp.hold("5s")), ("'n' must be an aggregate", "Hold")),
    ("agg-taken", ParameterError, lambda: points().session(5).agg(k=hp.count()), ("the name 'k' is taken",)),
    ("agg-end-taken", ParameterError, lambda: points().session(5).agg(end=hp.count()), ("the name 'end' is taken",)),
    (
        "fill-column",
        ParameterError,
        lambda: points().signal("v").sample(1, fill=hp.last("v")),
        ("fill must be a fill",),
    ),
    ("std-text", SignalTypeError, lambda: points().tumble(5).agg(n=hp.std("s")), ("std: column 's' is string",)),
    ("variance-ddof", ParameterError, lambda: points().tumble(5).agg(n=hp.variance("v", ddof=-1)), ("ddof",)),
    ("first-unknown", ParameterError, lambda: points().tumble(5).agg(n=hp.first("x")), ("first: no column 'x'",)),
    ("quantile-range", ParameterError, lambda: points().tumble(5).agg(n=hp.quantile("v", 1.5)), ("q must be from 0",)),
    ("quantile-nan", ParameterError, lambda: points().tumble(5).agg(n=hp.quantile("v", np.nan)), ("q must be from 0",)),
    ("top-k", ParameterError, lambda: points().tumble(5).agg(n=hp.top_k("v", 0)), ("k must be at least 1",)),
    (
        "distinct-list",
        SignalTypeError,
        lambda: points(w=[[1], [2], [3]]).tumble(5).agg(n=hp.distinct_count("w")),
        ("distinct_count: column 'w' is list",),
    ),
    (
        "aggregate-create",
        ParameterError,
        lambda: points().tumble(5).agg(n=_custom(create=lambda n: np.zeros(1))),
        ("create(2) must give an array with two rows",),
    ),
    (
        "aggregate-merge",
        ParameterError,
        lambda: points().tumble(5).agg(n=_custom(merge=lambda a, b: (a + b).sum())),
        ("merge must give states of shape (2,)",),
    ),
    (
        "aggregate-result",
        ParameterError,
        lambda: points().tumble(5).agg(n=_custom(result=lambda s: s.sum())),
        ("result must give one number per state",),
    ),
    (
        "aggregate-remove-shape",
        ParameterError,
        lambda: points().sliding(5, every=1).agg(n=_custom(remove=lambda s, v: (s - v).sum())),
        ("remove must give states of shape (2,)",),
    ),
    (
        "aggregate-remove",
        ParameterError,
        lambda: points().sliding(5, every=1).agg(n=_custom(remove=np.add)),
        ("remove must undo add", "leave remove out"),
    ),
    ("clip", ParameterError, lambda: lives().clip(0), ("clip: the longest lifetime must be positive, got 0",)),
    ("extend", ParameterError, lambda: lives().extend(0), ("extend: by must not be 0",)),
    ("alter", ParameterError, lambda: lives().alter(0), ("alter: duration must be positive",)),
    ("chop", ParameterError, lambda: lives().chop(0), ("chop: every must be positive",)),
    ("union-nothing", ParameterError, lambda: hp.union(), ("union: needs at least one stream",)),
    ("union-columns", SignalTypeError, lambda: points().union(lives()), ("the columns differ: v: double, s: string",)),
    (
        "union-types",
        SignalTypeError,
        lambda: points().select("v").union(points(v=[1, 2, 3]).select("v")),
        ("v: double; and v: int64",),
    ),
    ("union-keys", SignalTypeError, lambda: points().union(points().key_by("s")), ("union: the keys differ",)),
    ("join-keys", SignalTypeError, lambda: points().join(points().key_by("s")), ("join: the keys differ",)),
    (
        "join-on-types",
        SignalTypeError,
        lambda: points(n=[1, 2, 3]).join(points(), on={"n": "s"}),
        ("('n', 'int64')", "('n', 'string')"),
    ),
    ("join-on-floats", SignalTypeError, lambda: points().join(points(), on="v"), ("which cannot be a key",)),
    ("join-on-unknown", ParameterError, lambda: points().join(points(), on="x"), ("no column 'x'",)),
    (
        "join-how",
        ParameterError,
        lambda: points().join(points(), how="right"),
        ("how must be one of inner, left, full",),
    ),
    (
        "join-clocks",
        SignalTypeError,
        lambda: points().join(points(t=pa.array([0, 1, 2], pa.timestamp("ns")))),
        ("one side has integer times, the other timestamps without a zone",),
    ),
    ("anti-join-keys", SignalTypeError, lambda: points().anti_join(points().key_by()), ("anti_join: the keys differ",)),
    ("difference-columns", SignalTypeError, lambda: points().difference(lives()), ("difference: the columns differ",)),
    ("snapshot-nothing", ParameterError, lambda: lives().snapshot().agg(), ("at least one aggregate",)),
    ("snapshot-report", ParameterError, lambda: lives().snapshot(report=0).agg(n=hp.count()), ("report must be",)),
    (
        "asof-direction",
        ParameterError,
        lambda: points().asof_join(points(), direction="up"),
        ("direction must be one of",),
    ),
    (
        "asof-waits",
        PlanError,
        lambda: points().asof_join(points(), direction="forward").node.check_stream(None),
        ("needs a tolerance in a stream", "wait for ever"),
    ),
    (
        "asof-ties",
        ParameterError,
        lambda: points().asof_join(points(), direction="nearest", tolerance=5, ties="last"),
        ("ties must be 'earlier' or 'later'",),
    ),
    (
        "asof-ties-alone",
        ParameterError,
        lambda: points().asof_join(points(), ties="later"),
        ("needs direction='nearest'",),
    ),
    (
        "asof-line-strict",
        ParameterError,
        lambda: points().asof_join(points().select("v"), direction="interpolated", tolerance=5, exact=False),
        ("exact=False has no meaning",),
    ),
    ("lasting-negative", ParameterError, lambda: lives().lasting("-1s"), ("at_least must not be negative",)),
    ("lasting-empty", ParameterError, lambda: lives().lasting(5, 3), ("at_most must not be below at_least",)),
    ("stitch-gap", ParameterError, lambda: lives().stitch(gap=-1), ("gap must be positive",)),
    (
        "asof-tolerance",
        ParameterError,
        lambda: points().asof_join(points(), tolerance="-1s"),
        ("must not be negative",),
    ),
    ("asof-keys", SignalTypeError, lambda: points().asof_join(points().key_by("s")), ("asof_join: the keys differ",)),
    (
        "asof-text",
        SignalTypeError,
        lambda: points().asof_join(points(), direction="interpolated", tolerance=5),
        ("column 's' is string and cannot be interpolated",),
    ),
    ("pairs-within", ParameterError, lambda: points().pairs(within=0), ("pairs: within must be positive",)),
    (
        "pairs-twice",
        ParameterError,
        lambda: points().pairs().select("v").with_columns(v_before=hp.col("v")).pairs(),
        ("v_before",),
    ),
    ("pattern-short", ParameterError, lambda: points().pattern(a=hp.col("v") > 0, within=5), ("at least two steps",)),
    (
        "pattern-number",
        ParameterError,
        lambda: points().pattern(a=hp.col("v") > 0, b=hp.col("v") + 1, within=5),
        ("pattern: b is double, not true or false",),
    ),
    ("pattern-value", ParameterError, lambda: points().pattern(a=hp.col("v") > 0, b=True, within=5), ("no condition",)),
    (
        "pattern-within",
        ParameterError,
        lambda: points().pattern(a=hp.col("v") > 0, b=hp.col("v") > 1, within=0),
        ("within",),
    ),
    ("last-n", ParameterError, lambda: points().last_n(0).agg(n=hp.count()), ("n must be at least 1",)),
    ("count-window", ParameterError, lambda: points().count_window(0, by="v").agg(n=hp.count()), ("size must be",)),
    ("count-no-order", ParameterError, lambda: points().count_window(2), ("its source has no sequence", 'by="n"')),
    (
        "count-united",
        ParameterError,
        lambda: hp.union(numbered(), numbered()).count_window(2),
        ("because union has no sequence",),
    ),
    ("count-dropped", ParameterError, lambda: numbered().select("v").count_window(2), ("select does not keep 'i'",)),
    (
        "count-made",
        ParameterError,
        lambda: numbered().with_columns(i=hp.col("i") * 2).where(hp.col("v") > 0).count_window(2),
        ("with_columns does not keep 'i'",),
    ),
    (
        "report-parts",
        ParameterError,
        lambda: points().tumble(10, report=4).agg(n=hp.count()),
        ("tumble: report must divide",),
    ),
    (
        "report-zero",
        ParameterError,
        lambda: points().sliding(9, every=3, report=0).agg(n=hp.count()),
        ("sliding: report must be",),
    ),
    (
        "flush-word",
        ParameterError,
        lambda: points().tumble(9, flush="lazy").agg(n=hp.count()),
        ("tumble: flush must say", "hp.lazy(late=2)"),
    ),
    (
        "flush-early",
        ParameterError,
        lambda: points().tumble(9, report=3, flush=hp.lazy()).agg(n=hp.count()),
        ("tumble: report gives results early, and flush late",),
    ),
    (
        "flush-sliding",
        ParameterError,
        lambda: points().sliding(9, every=3, flush=2).agg(n=hp.count()),
        ("sliding: flush must say",),
    ),
    ("flush-late", ParameterError, lambda: hp.lazy(late=0), ("lazy: late must be a whole number, at least 1, got 0",)),
    ("flush-every", ParameterError, lambda: hp.slow(every=1.5), ("slow: every must be a whole number",)),
    ("report-nothing", ParameterError, lambda: points().tumble(9, report=3).agg(), ("tumble: agg needs",)),
    ("report-taken", ParameterError, lambda: points().tumble(9, report=3).agg(final=hp.count()), ("'final' is taken",)),
    (
        "report-key",
        ParameterError,
        lambda: points().key_by(final="k").tumble(9, report=3).agg(n=hp.count()),
        ("in a column 'final'", "rename the key"),
    ),
    ("count-by", ParameterError, lambda: points().count_window(2, by="v").agg(n=hp.count()), ("not a whole number",)),
    ("top-k-rows", ParameterError, lambda: points().top_k(0, by="v", size=5), ("top_k: k must be at least 1",)),
    ("top-unknown", ParameterError, lambda: points().top_k(1, by="x", size=5), ("top_k: no column 'x'",)),
    ("reservoir-size", ParameterError, lambda: points().reservoir(1, size=0), ("reservoir: size must be positive",)),
    (
        "band-by",
        ParameterError,
        lambda: points().band_join(points(), before=1, after=1, by="either"),
        ("by must be one of",),
    ),
    (
        "tumble-by",
        ParameterError,
        lambda: points().tumble(5, by="right"),
        ("by='right' chooses among the times of a pair",),
    ),
    ("tumble-endless", ParameterError, lambda: points().tumble(2**63 - 1).agg(n=hp.count()), ("size has no end",)),
    ("session-endless", ParameterError, lambda: points().session(2**63 - 1).agg(n=hp.count()), ("gap has no end",)),
    ("band-endless", ParameterError, lambda: points().band_join(points(), before=0, after=2**63 - 1), ("no end",)),
    ("extend-end", ParameterError, lambda: points(end=[1, 2, 3]).extend(1), ("lifetimes end in a column 'end'",)),
]


@pytest.mark.parametrize(("kind", "does", "says"), [b[1:] for b in BUILT], ids=[b[0] for b in BUILT])
def test_a_wrong_query_is_refused(kind: type[HydrophoneError], does: Callable[[], Any], says: tuple[str, ...]) -> None:
    with pytest.raises(kind) as caught:
        does()
    error = caught.value
    assert type(error) is kind
    for part in says:
        assert part in str(error), f"{part!r} is not in: {error}"
    assert error.where is not None and error.where.startswith("test_bad_relations.py:")
    assert error.hint or "no column" in str(error) or kind is SignalTypeError, f"no hint: {error}"


def test_a_null_in_a_join_column_is_an_error() -> None:
    with pytest.raises(hp.DataError, match="1 rows have no key"):
        points(n=[1, None, 3]).join(points(n=[1, 2, 3]), on="n").to_arrow()


def test_an_end_before_its_start_is_an_error() -> None:
    wrong = hp.from_arrow(pa.table({"k": ["a"], "t": [5], "e": [5]}), key="k", time="t", end="e")
    with pytest.raises(hp.DataError, match="end at or before their start"):
        wrong.join(lives()).to_arrow()


def test_a_sequence_that_falls_is_an_error() -> None:
    with pytest.raises(hp.DataError, match="'i' falls at"):
        points(i=[5, 1, 2]).count_window(2, by="i").agg(n=hp.count()).to_arrow()
    with pytest.raises(hp.DataError, match="1 events have no number"):
        points(i=[5, None, 2]).count_window(2, by="i").agg(n=hp.count()).to_arrow()


def test_a_sequence_that_repeats_is_an_error_however_rows_come() -> None:
    rows = pa.table({"k": ["a", "b", "a", "a"], "t": [0, 0, 10, 20], "i": [0, 0, 1, 1]})
    query = hp.from_arrow(rows, key="k", time="t", progress=hp.ordered()).count_window(3, by="i").agg(n=hp.count())
    for run in (query.to_arrow, lambda: list(query.batches(rows=1)), lambda: list(query.batches(rows=2))):
        with pytest.raises(hp.DataError, match=r"'i' has 1 twice, the second at .*020") as caught:
            run()
        assert caught.value.hint and "distinct()" in caught.value.hint


def zoned(zone: str | None, **more: Any) -> hp.Stream:
    kind = pa.timestamp("us", zone)
    return hp.from_arrow(pa.table({"t": pa.array([0, 10], kind), "v": [1, 2]}), time="t", **more)


def test_times_with_a_zone_never_meet_times_without() -> None:
    utc, berlin, none = zoned("UTC"), zoned("Europe/Berlin"), zoned(None)
    assert len(utc.join(berlin).to_arrow()) == 2  # zones are ways to write an instant
    for meet in (lambda: utc.join(none), lambda: none.asof_join(berlin), lambda: hp.union(utc, berlin, none)):
        with pytest.raises(
            SignalTypeError, match=r"one side has timestamps with.* a zone, the other timestamps with"
        ) as caught:
            meet()
        assert caught.value.where and caught.value.hint


MARKED = {"t": [1, 2], "text": ["x", "y"], "at": pa.array([1, 2], pa.timestamp("us")), "mark": [None, 2]}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"progress": hp.punctuated("nix")}, "progress: no column 'nix'; the data has: t, text, at, mark"),
        ({"progress": hp.ordered(by="nix")}, "progress: no column 'nix'"),
        ({"progress": hp.punctuated("text")}, "column of marks 'text' is string, and time column 't' is int64"),
        ({"progress": hp.punctuated("at")}, r"column of marks 'at' is timestamp\[us\], and time column 't' is int64"),
        ({"end": "at"}, r"end column 'at' is timestamp\[us\], and time column 't' is int64"),
    ],
)
def test_ends_and_marks_are_times_like_the_time(more: dict[str, Any], says: str) -> None:
    with pytest.raises(HydrophoneError, match=says) as caught:
        hp.from_arrow(pa.table(MARKED), time="t", **more)
    assert caught.value.where
    hp.from_arrow(pa.table(MARKED), time="t", progress=hp.punctuated("mark"))


def test_a_late_policy_is_no_text() -> None:
    with pytest.raises(ParameterError, match="batches: late must be a policy, got 'drop'"):
        points().batches(late="drop")  # type: ignore[arg-type]


def test_keys_of_other_types_are_to_be_cast() -> None:
    numbers, texts = points(n=[1, 2, 3]), points(n=["1", "2", "3"])
    with pytest.raises(SignalTypeError, match="the keys differ") as caught:
        numbers.join(texts, on="n")
    assert caught.value.hint and "cast" in caught.value.hint


def test_a_sample_of_events_that_start_together_is_fair() -> None:
    stream = hp.from_arrow(
        pa.table({"t": [0] * 40, "v": [None, *np.arange(39.0)], "s": [f"s{i}" for i in range(40)]}), time="t"
    )
    taken = [v for seed in range(50) for v in stream.reservoir(10, size=5, seed=seed).to_arrow()["s"].to_pylist()]
    counts = np.unique(taken, return_counts=True)[1]
    assert len(counts) == 40 and counts.min() > 2 and counts.max() < 26  # 12.5 each, by a binomial law


def test_sorted_events_leave_in_the_order_of_time() -> None:
    rng = np.random.default_rng(1)
    table = pa.table({"k": rng.integers(0, 5, 200), "t": rng.integers(0, 60, 200), "v": rng.normal(size=200)})
    query = hp.from_arrow(table, key="k", time="t", progress=hp.delayed(60)).sort()
    rows = [tuple(r.values()) for piece in query.batches(13) for r in piece.to_pylist()]
    assert rows == sorted(zip(*(c.to_pylist() for c in table.columns), strict=True), key=lambda r: (r[1], r[0], r[2]))


def test_a_sample_is_another_for_another_seed() -> None:
    stream = hp.from_arrow(pa.table({"t": range(1000)}), time="t")
    samples = [tuple(sorted(stream.reservoir(20, size=1000, seed=s).to_arrow()["t"].to_pylist())) for s in (1, 2)]
    assert len(set(samples)) == 2
    assert all(len(s) == 20 and 200 < np.mean(s) < 800 for s in samples)
