"""The nine queries of the out-of-order paper: the same answers as plain loops, whatever the arrival."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hydrophone as hp

PATH = Path(__file__).parents[2] / "examples" / "out_of_order.py"
_spec = importlib.util.spec_from_file_location("out_of_order", PATH)
assert _spec is not None and _spec.loader is not None
example: Any = importlib.util.module_from_spec(_spec)
sys.modules["out_of_order"] = example
_spec.loader.exec_module(example)

S = example.SECOND
SIZES = {"control": 12, "main1": 90, "main2": 90, "a": 40, "b": 40, "c": 40, "d": 40}
TABLES: dict[str, pa.Table] = {name: example.packets(seed, size) for seed, (name, size) in enumerate(SIZES.items())}
ROWS: dict[str, list[dict[str, Any]]] = {name: table.to_pylist() for name, table in TABLES.items()}


# --- the answers by plain loops -----------------------------------------------------------------------------------------


def per_window(rows: list[Any], size: int, every: int, *columns: str) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for r in rows:
        start = r["ts"] // every * every
        while start + size > r["ts"]:
            found[(*(r[c] for c in columns), start, start + size)] += 1
            start -= every
    return found


def answered(a: Any, b: Any) -> bool:
    return all(a[x] == b[y] for x, y in example.ADDRESS.items())


def pairs(left: list[Any], right: list[Any], meets: Callable[[Any, Any], bool]) -> list[tuple[Any, Any]]:
    return [(a, b) for a in left for b in right if meets(a, b)]


def wanted(name: str) -> Counter[Any]:
    r = ROWS
    match name:
        case "q1":
            return per_window(r["control"] + r["main1"] + r["main2"], 60 * S, 60 * S)
        case "q2":
            met = pairs(
                r["main1"],
                r["main2"],
                lambda a, b: a["src"] == b["dst"] and a["ts"] - 120 * S < b["ts"] < a["ts"] + 180 * S,
            )
            return Counter((a["src"], a["ts"], b["ts"], a["dst"], b["src"]) for a, b in met)
        case "q3":
            met = pairs(
                [a for a in r["main1"] if a["flag"] == "SYN"],
                [b for b in r["main2"] if b["flag"] == "SYN_ACK"],
                lambda a, b: (a["dst"], a["dport"]) == (b["src"], b["sport"]) and 0 < b["ts"] - a["ts"] <= 120 * S,
            )
            return Counter((b["ts"] // S * S, a["ts"] // S * S, a["ts"] // S * S + S) for a, b in met)
        case "q4":
            return per_window(r["main1"], 60 * S, 60 * S, "src", "dst")
        case "q5":
            return per_window(r["main1"] + r["main2"], 60 * S, 60 * S, "src", "dst")
        case "q6":
            met = pairs(
                r["a"] + r["b"],
                r["c"] + r["d"],
                lambda a, b: answered(a, b) and a["ts"] // (10 * S) == b["ts"] // (10 * S),
            )
            return Counter((a["src"], a["dst"], a["ts"]) for a, _ in met)
        case "q7":
            met = pairs(r["main1"], r["main2"], lambda a, b: answered(a, b) and abs(a["ts"] - b["ts"]) <= 30 * S)
            return per_window([a for a, _ in met], 60 * S, 60 * S)
        case "q8":
            met = pairs(r["main1"], r["main2"] + r["control"], lambda a, b: answered(a, b) and a["ts"] == b["ts"])
            return Counter((a["src"], a["dst"], a["ts"]) for a, _ in met)
    return per_window(r["main1"] + r["main2"] + r["control"], 300 * S, 60 * S)


def found(name: str, rows: list[dict[str, Any]]) -> Counter[Any]:
    match name:
        case "q2":
            return Counter((r["src"], r["ts"], r["ts_right"], r["dst"], r["src_right"]) for r in rows)
        case "q3":
            return Counter({(r["ts_right"], r["ts"], r["end"]): r["n"] for r in rows})
        case "q4" | "q5":
            return Counter({(r["src"], r["dst"], r["ts"], r["end"]): r["n"] for r in rows})
        case "q6" | "q8":
            return Counter((r["src"], r["dst"], r["ts"]) for r in rows)
    return Counter({(r["ts"], r["end"]): r["n"] for r in rows})


# --- ways to arrive -----------------------------------------------------------------------------------------------------


def arrivals(way: str) -> dict[str, hp.Stream]:
    rng = np.random.default_rng(5)
    if way == "in order":
        return example.links(TABLES, hp.ordered())
    if way == "all at once, backwards":
        return example.links({n: t.take(pa.array(np.arange(len(t))[::-1])) for n, t in TABLES.items()})
    late = {
        n: t.take(pa.array(np.argsort(t["ts"].to_numpy() + rng.integers(0, 45 * S, len(t))))) for n, t in TABLES.items()
    }
    return example.links(late, hp.delayed("45s"))


@pytest.mark.parametrize("way", ["in order", "all at once, backwards", "late by up to 45 s"])
@pytest.mark.parametrize("name", example.QUERIES)
def test_the_arrival_never_changes_an_answer(name: str, way: str) -> None:
    query = example.QUERIES[name](arrivals(way))
    pieces = [query.to_arrow()] if way == "all at once, backwards" else query.batches(7)
    rows = [r for piece in pieces for r in piece.to_pylist()]
    answer = wanted(name)
    assert sum(answer.values()) > 0
    assert found(name, rows) == answer


def test_answers_come_before_the_end() -> None:
    """A window is counted as soon as all links have passed it."""
    ordered = example.links({n: TABLES[n] for n in ("control", "main1", "main2")}, hp.ordered())
    pieces = [len(p) for p in example.q9(ordered).batches(5) if len(p)]
    assert len(pieces) > 5


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    example.main()
    assert "q9: How many packets" in capsys.readouterr().out
