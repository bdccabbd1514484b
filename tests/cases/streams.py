"""Cases of the row operators, KeyBy, Tumble, BandJoin and the source itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from tests import oracles
from tests.cases import data
from tests.cases.sampling import _cd_audio, _vectors, sampled
from tests.cases.table import Case, Row, Source, grid, sample_rows

import hydrophone as hp
from hydrophone.ops.aggregates.tumble import Tumble
from hydrophone.ops.relational.band_join import BandJoin
from hydrophone.ops.relational.key_by import KeyBy
from hydrophone.ops.relational.rows import Select, ToEvents, Where, WithColumns
from hydrophone.plan.source import Source as SourceNode

_SUM = "sums of floats in the order in which events come"


def _row(e: oracles.Event, source: Source, *names: str) -> Row:
    return (*e.key, e.start, *([e.stop] if source.end else []), *(e.payload[n] for n in names))


def where(name: str, source: Source, condition: Callable[[], Any], keep: Callable[[oracles.Event], bool]) -> Case:
    names = [n for n in source.table.column_names if n not in (*source.keys, source.time, source.end)]
    return Case(
        name,
        Where,
        {"x": source},
        lambda s: s["x"].where(condition()),
        lambda i: [_row(e, i["x"], *names) for e in i["x"].events() if keep(e)],
    )


ROUGH = data.points(70, value=data.rough)
NULLS = data.points(71, value=data.with_nulls)
LIVES = data.overlapping(72)


def tumble(
    name: str, source: Source, size: int, offset: int = 0, *, column: str = "v", tolerance: float = 1e-12
) -> Case:
    """All aggregates of one column."""

    def query(s: Mapping[str, Any]) -> Any:
        parts = {
            "n": hp.count(),
            "m": hp.count(column),
            "total": hp.sum(column),
            "level": hp.mean(column),
            "low": hp.min(column),
            "high": hp.max(column),
        }
        return s["x"].tumble(size, offset=offset).agg(**parts)

    def expected(inputs: Mapping[str, Source]) -> list[Row]:
        out = []
        for (key, start), events in oracles.tumble(inputs["x"].events(), size, offset).items():
            v = [e.payload[column] for e in events]
            counts = (len(v), sum(x is not None for x in v))
            out.append(
                (
                    *key,
                    start,
                    start + size,
                    *counts,
                    oracles.total(v),
                    oracles.mean(v),
                    oracles.extreme(min, v),
                    oracles.extreme(max, v),
                )
            )
        return out

    return Case(name, Tumble, {"x": source}, query, expected, tolerance, _SUM if tolerance else "")


def band(name: str, left: Source, right: Source, before: int, after: int) -> Case:
    def expected(i: Mapping[str, Source]) -> list[Row]:
        pairs = oracles.band_join(i["a"].events(), i["b"].events(), before, after)
        return [(*_row(a, i["a"], "v"), b.start, b.payload["v"]) for a, b in pairs]

    return Case(
        name,
        BandJoin,
        {"a": left, "b": right},
        lambda s: s["a"].select("v").band_join(s["b"].select("v"), before=before, after=after),
        expected,
    )


def _rekeyed(on: Any, left_on: str, right_on: str) -> Case:
    left, right = data.overlapping(80), data.overlapping(81)
    right = replace(right, table=right.table.rename_columns(["k", "t", "e", "v", "n", "tag"]))

    def expected(i: Mapping[str, Source]) -> list[Row]:
        a = [
            oracles.Event((e.payload[left_on],), e.start, e.stop, e.payload | {"k": e.key[0]}) for e in i["a"].events()
        ]
        b = [
            oracles.Event((e.payload[right_on],), e.start, e.stop, e.payload | {"k": e.key[0]}) for e in i["b"].events()
        ]
        return [
            (*x.key, x.start, x.stop, x.payload["k"], y.start, y.payload["k"]) for x, y in oracles.band_join(a, b, 4, 9)
        ]

    return Case(
        f"band-join-on-{right_on}",
        BandJoin,
        {"a": left, "b": right},
        lambda s: s["a"].select(left_on).band_join(s["b"].select(right_on), on=on, before=4, after=9),
        expected,
    )


def _join_counts() -> Case:
    """A change of key between two stateful operators: two exchanges."""

    def expected(i: Mapping[str, Source]) -> list[Row]:
        pairs = oracles.band_join(i["a"].events(), i["b"].events(), 10, 10)
        events = [oracles.Event((a.payload["s"],), a.start, a.stop, {}) for a, _ in pairs]
        return [(*k, t, t + 50, len(es)) for (k, t), es in oracles.tumble(events, 50).items()]

    return Case(
        "key-by-between",
        KeyBy,
        {"a": data.overlapping(84), "b": data.overlapping(85)},
        lambda s: (
            s["a"]
            .select("s")
            .band_join(s["b"].select("n"), before=10, after=10)
            .key_by("s")
            .tumble(50)
            .agg(n=hp.count())
        ),
        expected,
    )


def _keys_of(kind: str) -> Source:
    base = data.points(90, ["a", "b", "c"], 8)
    code = {"a": 0, "b": 1, "c": 2}
    which = [code[k] for k in base.table["k"].to_pylist()]
    keys = {
        "dictionary": pa.array(["x", "y", "z"]).take(pa.array(which)).dictionary_encode(),
        "large-text": pa.array(["x", "y", ""]).cast(pa.large_string()).take(pa.array(which)),
        "bool": pa.array([w == 1 for w in which]),
        "int8": pa.array([(-128, 0, 127)[w] for w in which], pa.int8()),
        "uint64": pa.array([(0, 2**63 + 5, 2**64 - 1)[w] for w in which], pa.uint64()),
        "wide": pa.array([(-(2**62), 2**53 + 1, 2**53 + 2)[w] for w in which]),
    }
    return replace(base, table=base.table.set_column(0, "k", keys[kind]))


def _plain(name: str, source: Source) -> Case:
    names = [n for n in source.table.column_names if n not in (*source.keys, source.time, source.end)]
    return Case(
        name, SourceNode, {"x": source}, lambda s: s["x"], lambda i: [_row(e, i["x"], *names) for e in i["x"].events()]
    )


def _by(
    name: str, source: Source, columns: tuple[str, ...], renamed: dict[str, str], row: Callable[[oracles.Event], Row]
) -> Case:
    return Case(
        name,
        KeyBy,
        {"x": source},
        lambda s: s["x"].key_by(*columns, **renamed),
        lambda i: [row(e) for e in i["x"].events()],
    )


CASES = [
    _plain("source", ROUGH),
    _plain("source-lifetimes", LIVES),
    _plain("source-empty", data.empty(LIVES)),
    *(
        _plain(f"source-key-{kind}", _keys_of(kind))
        for kind in ("dictionary", "large-text", "bool", "int8", "uint64", "wide")
    ),
    where("where", ROUGH, lambda: hp.col("v") > -1, lambda e: e.payload["v"] > -1),
    where("where-nulls", NULLS, lambda: hp.col("v") > 0, lambda e: e.payload["v"] is not None and e.payload["v"] > 0),
    where("where-negative-zero", ROUGH, lambda: hp.col("v") == 0, lambda e: e.payload["v"] == 0),
    where(
        "where-key-and-time",
        LIVES,
        lambda: (hp.col("k") == "a") & (hp.col("t") < 100),
        lambda e: e.key == ("a",) and e.start < 100,
    ),
    where("where-end", LIVES, lambda: hp.col("e") - hp.col("t") > 40, lambda e: e.stop - e.start > 40),
    where("where-none", LIVES, lambda: hp.col("n") > 99, lambda e: False),
    where("where-empty", data.empty(LIVES), lambda: hp.col("n") > 0, lambda e: False),
    Case(
        "where-of-signal",
        Where,
        {"x": data.points(73)},
        lambda s: s["x"].signal("v").where(hp.col("v") > 0).sample(9, fill=hp.hold(50)),
        lambda i: sample_rows(
            {
                k: oracles.sample([e for e in es if e.payload["v"] > 0], lambda e: e.payload["v"], grid(9), "last", 50)
                for k, es in oracles.by_key(i["x"].events()).items()
            },
            grid(9),
        ),
    ),
    Case(
        "with-columns",
        WithColumns,
        {"x": LIVES},
        lambda s: s["x"].with_columns(twice=hp.col("n") * 2, v=hp.col("v") + 1.0, late=hp.col("t") > 100),
        lambda i: [
            (
                *_row(e, i["x"]),
                None if e.payload["v"] is None else e.payload["v"] + 1.0,
                e.payload["n"],
                e.payload["s"],
                e.payload["n"] * 2,
                e.start > 100,
            )
            for e in i["x"].events()
        ],
    ),
    Case(
        "with-columns-constant",
        WithColumns,
        {"x": data.points(74)},
        lambda s: s["x"].select().with_columns(one=hp.lit(1), key=hp.col("k")),
        lambda i: [(*_row(e, i["x"]), 1, e.key[0]) for e in i["x"].events()],
    ),
    Case(
        "select",
        Select,
        {"x": LIVES},
        lambda s: s["x"].select("s", "n"),
        lambda i: [_row(e, i["x"], "s", "n") for e in i["x"].events()],
    ),
    Case(
        "select-nothing",
        Select,
        {"x": LIVES},
        lambda s: s["x"].select(),
        lambda i: [_row(e, i["x"]) for e in i["x"].events()],
    ),
    Case(
        "events",
        ToEvents,
        {"x": data.beats(75)},
        lambda s: s["x"].signal("v").sample(10).events("level").where(hp.col("level") > 0),
        lambda i: [r for r in sample_rows(sampled(i["x"], 10), grid(10)) if r[2] > 0],
    ),
    Case(
        "events-of-vectors",
        ToEvents,
        {"x": _vectors()},
        lambda s: s["x"].signal("v", "w").sample(9, fill=hp.hold(30)).events("c"),
        lambda i: sample_rows(sampled(i["x"], 9, fill="last", gap=30, columns=("v", "w")), grid(9)),
    ),
    Case(
        "events-and-back",
        ToEvents,
        {"x": data.beats(76)},
        lambda s: s["x"].signal("v").sample(10).events("u").signal("u").sample(5, fill=hp.hold(20)),
        lambda i: sample_rows(
            {
                k: oracles.sample(
                    [oracles.Event(k, 10 * n, 10 * n + 1, {"u": v}) for n, v in x.items()],
                    lambda e: e.payload["u"],
                    grid(5),
                    "last",
                    20,
                )
                for k, x in sampled(i["x"], 10).items()
            },
            grid(5),
        ),
    ),
    _by(
        "key-by",
        LIVES,
        ("s",),
        {},
        lambda e: (e.payload["s"], e.start, e.stop, e.key[0], e.payload["v"], e.payload["n"]),
    ),
    _by(
        "key-by-two",
        LIVES,
        ("s", "n"),
        {},
        lambda e: (e.payload["s"], e.payload["n"], e.start, e.stop, e.key[0], e.payload["v"]),
    ),
    _by(
        "key-by-renamed",
        LIVES,
        (),
        {"who": "k"},
        lambda e: (e.key[0], e.start, e.stop, e.payload["v"], e.payload["n"], e.payload["s"]),
    ),
    _by(
        "key-by-nothing",
        LIVES,
        (),
        {},
        lambda e: (e.start, e.stop, e.key[0], e.payload["v"], e.payload["n"], e.payload["s"]),
    ),
    _join_counts(),
    Case(
        "key-by-after-tumble",
        KeyBy,
        {"x": LIVES},
        lambda s: s["x"].tumble(30).agg(n=hp.count()).key_by().tumble(90).agg(total=hp.sum("n")),
        lambda i: [
            (*k, t, t + 90, len(es))
            for (k, t), es in oracles.tumble([e._replace(key=()) for e in i["x"].events()], 90).items()
        ],
    ),
    tumble("tumble", NULLS, 50),
    tumble("tumble-offset", NULLS, 50, 13),
    tumble("tumble-lifetimes", LIVES, 70),
    tumble("tumble-integers", data.overlapping(82, [1, 2, 3]), 70, column="n"),
    tumble("tumble-rough", ROUGH, 200, tolerance=1e-9),
    tumble("tumble-one-ns", NULLS, 1),
    tumble("tumble-larger-than-data", NULLS, 10**9),
    tumble("tumble-epoch-2026", data.points(83, start=data.EPOCH_2026), 50),
    tumble("tumble-44khz", _cd_audio(), 100_000),
    tumble("tumble-no-key", replace(NULLS, key=()), 50),
    tumble("tumble-two-keys", replace(LIVES, key=("k", "s")), 70),
    tumble("tumble-empty", data.empty(NULLS), 50),
    tumble("tumble-one-row", data.one_row(NULLS), 50),
    tumble("tumble-single", data.points(83, value=data.single), 50),
    band("band-join", data.overlapping(86), data.overlapping(87), 10, 25),
    band("band-join-points", data.points(88), data.points(89), 30, 0),
    band("band-join-points-and-lifetimes", data.points(88), data.overlapping(87), 0, 30),
    band("band-join-at-once", data.overlapping(86), data.overlapping(87), 0, 0),
    band("band-join-only-later", data.points(88), data.points(89), -5, 60),
    band("band-join-only-earlier", data.points(88), data.points(89), 60, -5),
    band("band-join-everything", data.points(88, rows=8), data.points(89, rows=8), 10**6, 10**6),
    band("band-join-empty-right", data.points(88), data.empty(data.points(89)), 10, 10),
    band("band-join-integers", data.overlapping(86, [1, 2]), data.overlapping(87, [2, 3]), 10, 25),
    _rekeyed({"s": "tag"}, "s", "tag"),
    _rekeyed("n", "n", "n"),
]
