"""Inputs that are nasty on purpose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from tests.cases.table import Source

NAN, INF = float("nan"), float("inf")
EPOCH_2026 = 1_767_225_600_000_000_000
"""2026-01-01T00:00:00Z in nanoseconds: beyond the whole numbers of a double."""


def table(**columns: Any) -> pa.Table:
    return pa.table(columns)


def complex_array(values: Sequence[complex], part: pa.DataType | None = None) -> pa.Array:
    v, part = np.asarray(values, complex), part or pa.float64()
    return pa.StructArray.from_arrays([pa.array(v.real).cast(part), pa.array(v.imag).cast(part)], ["re", "im"])


def irregular(
    seed: int, keys: Sequence[Any], rows: int, *, spread: int = 40, start: int = -200, holes: bool = True
) -> tuple[list[Any], np.ndarray]:
    """Keys and distinct times per key, shuffled: irregular, with holes, from negative times on."""
    rng = np.random.default_rng(seed)
    key: list[Any] = []
    times: list[int] = []
    for k in keys:
        steps = rng.integers(1, spread, rows)
        if holes:
            steps[rng.random(rows) < 0.15] += 5 * spread
        at = start + int(rng.integers(0, spread)) + np.cumsum(steps)
        key += [k] * rows
        times += at.tolist()
    order = rng.permutation(len(key))
    return [key[i] for i in order], np.asarray(times, np.int64)[order]


def points(
    seed: int, keys: Sequence[Any] = ("a", "b", "c"), rows: int = 25, *, value: Any = None, **how: Any
) -> Source:
    """Point events of several keys at irregular times."""
    key, t = irregular(seed, keys, rows, **how)
    v = (
        np.random.default_rng(seed + 1).normal(0, 3, len(t))
        if value is None
        else value(len(t), np.random.default_rng(seed + 1))
    )
    return Source(table(k=key, t=t, v=v), key="k")


def beats(
    seed: int,
    keys: Sequence[Any] = ("a", "b", "c"),
    rows: int = 40,
    *,
    period: int = 10,
    first: int = -7,
    lost: float = 0.12,
    value: Any = None,
    base: int = 0,
) -> Source:
    """Point events on a grid of `period`, with lost samples and longer holes, shuffled."""
    rng = np.random.default_rng(seed)
    key: list[Any] = []
    index: list[int] = []
    for n, k in enumerate(keys):
        there = np.arange(rows)[rng.random(rows) >= lost]
        there = there + np.where(there > rows * 2 // 3, 6 + 3 * n, 0)
        key += [k] * len(there)
        index += (first + n + there).tolist()
    order = rng.permutation(len(key))
    t = base + np.asarray(index, np.int64)[order] * period
    v = (
        np.random.default_rng(seed + 1).normal(0, 3, len(t))
        if value is None
        else value(len(t), np.random.default_rng(seed + 1))
    )
    return Source(table(k=[key[i] for i in order], t=t, v=v), key="k")


def whole(n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(-100, 100, n)


def small_whole(n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(-100, 100, n).astype(np.int16)


def widest(n: int, rng: np.random.Generator) -> np.ndarray:
    """Small integers at the ends of their range: differences, squares and sums have no room in their own type."""
    return rng.choice(np.array([-32768, -20000, 7, 20000, 32767], np.int16), n)


def single(n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.normal(0, 3, n).astype(np.float32)


def complicated(n: int, rng: np.random.Generator) -> pa.Array:
    return complex_array(rng.normal(size=n) + 1j * rng.normal(size=n))


def rough(n: int, rng: np.random.Generator) -> np.ndarray:
    """With NaN, infinities, huge numbers and negative zeros."""
    v = rng.normal(0, 3, n)
    for bad in (NAN, INF, -INF, 1e12, -0.0):
        v[rng.integers(0, n, max(1, n // 25))] = bad
    return v


def with_nulls(n: int, rng: np.random.Generator) -> pa.Array:
    return pa.array(rng.normal(0, 3, n), mask=rng.random(n) < 0.2)


def intervals(seed: int, keys: Sequence[Any] = ("a", "b"), rows: int = 15, *, start: int = -150) -> Source:
    """Events with lifetimes that never overlap within a key; some touch, some have room between."""
    rng = np.random.default_rng(seed)
    out: dict[str, list[Any]] = {"k": [], "t": [], "e": [], "v": []}
    for k in keys:
        at = start + int(rng.integers(0, 30))
        for _ in range(rows):
            stop = at + int(rng.integers(1, 45))
            for name, x in zip(out, (k, at, stop, float(rng.normal())), strict=True):
                out[name].append(x)
            at = stop + int(rng.choice([0, 0, 3, 17, 60]))
    order = rng.permutation(len(out["k"]))
    return Source(pa.table({n: [c[i] for i in order] for n, c in out.items()}), key="k", end="e")


def overlapping(seed: int, keys: Sequence[Any] = ("a", "b", "c"), rows: int = 20) -> Source:
    """Events with lifetimes that overlap, with equal times, and a text and a whole number as payload."""
    rng = np.random.default_rng(seed)
    n = len(keys) * rows
    t = rng.integers(-100, 300, n)
    columns = {
        "k": [keys[i] for i in rng.integers(0, len(keys), n)],
        "t": t,
        "e": t + rng.integers(1, 90, n),
        "v": pa.array(rng.normal(0, 2, n), mask=rng.random(n) < 0.1),
        "n": rng.integers(-5, 5, n),
        "s": [str(c) for c in rng.choice(["x", "y", "z", ""], n)],
    }
    return Source(pa.table(columns), key="k", end="e")


def empty(source: Source) -> Source:
    return Source(source.table.slice(0, 0), source.key, source.time, source.end)


def one_row(source: Source) -> Source:
    return Source(source.table.slice(0, 1), source.key, source.time, source.end)
