"""Near the ends of time, and with sizes, offsets and steps of any length, answers are exact or refused with a reason."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import fields
from fractions import Fraction
from itertools import pairwise
from math import gcd, lcm
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.cases import ALL_CASES, Case, Source, rows

import hydrophone as hp
from hydrophone.api import Query
from hydrophone.errors import DataError, ParameterError, PlanError
from hydrophone.model.time import FIRST_DATE, LAST_DATE, MAX_TIME, MIN_TIME
from hydrophone.model.timebase import Timebase
from hydrophone.plan.node import Node

# --- windows and lifetimes, against Python's whole numbers ------------------------------------------------------------

Rows = list[tuple[Any, ...]]


class Beyond(Exception):
    """The oracle's word for a time that 64 bits do not hold."""


def told(*times: int) -> None:
    if any(not MIN_TIME < t < MAX_TIME for t in times):
        raise Beyond


def windows(times: list[int], size: int, every: int, offset: int) -> Rows:
    found: Counter[tuple[int, int]] = Counter()
    for t in times:
        pane = gcd(size, every)
        told((t - offset) // pane * pane + offset, ((t - offset) // pane + 1) * pane + offset)
        k = (t - size - offset) // every + 1
        while k * every + offset <= t:
            found[k * every + offset, k * every + offset + size] += 1
            k += 1
    for low, high in found:
        told(low, high)
    return sorted((low, high, n) for (low, high), n in found.items())


def sessions(times: list[int], gap: int) -> Rows:
    out: list[list[int]] = []
    for t in sorted(times):
        if out and t - out[-1][1] < gap:
            out[-1][1:] = [t, out[-1][2] + 1]
        else:
            out.append([t, t, 1])
    for _, last, _ in out:
        told(last + gap)
    return sorted((low, last + gap, n) for low, last, n in out)


def pieces(times: list[int], size: int, every: int, offset: int) -> Rows:
    out: Rows = []
    for t in times:
        told(t + size)
        at = t
        while at < t + size:
            cut = min(((at - offset) // every + 1) * every + offset, t + size)
            out.append((at, cut))
            at = cut
    return sorted(out)


def moved(times: list[int], by: int) -> Rows:
    told(*(t + by for t in times))
    return sorted((t + by,) for t in times)


def lived(times: list[int], size: int) -> Rows:
    told(*(t + size for t in times))
    return sorted((t, t + size) for t in times)


def first_of(times: list[int], size: int, offset: int) -> Rows:
    best: dict[int, int] = {}
    for t in times:
        k = (t - offset) // size
        best[k] = min(best.get(k, t), t)
    return sorted((t,) for t in best.values())


INSTANTS = st.sampled_from([FIRST_DATE, -1, 0, 1, LAST_DATE - 1, 1_700_000_000 * 10**9]).flatmap(
    lambda near: st.integers(-1000, 1000).map(lambda by: min(max(near + by, FIRST_DATE), LAST_DATE - 1))
)
YEAR = 365 * 86_400 * 10**9
SIZES = st.sampled_from([1, 7, 10, 1000, 10**9, YEAR, 5 * YEAR, 100 * YEAR, 2**61, 2**62, 2**63 - 2])
OFFSETS = st.one_of(
    st.integers(MIN_TIME, MAX_TIME), st.sampled_from([MIN_TIME, -1, 0, 1, MAX_TIME - 1, MAX_TIME]), INSTANTS
)
MOVES = st.sampled_from([0, 0, MAX_TIME - LAST_DATE - 500, MIN_TIME + 1 - FIRST_DATE + 500])
"""Streams move this far first: sources end four years before 64 bits do."""

Operator = tuple[Callable[..., Query], Callable[..., Rows], Callable[[int, int], bool]]
OPERATORS: dict[str, Operator] = {
    "tumble": (
        lambda s, size, other, offset: s.tumble(size, offset=offset).agg(n=hp.count()),
        lambda t, size, other, offset: windows(t, size, size, offset),
        lambda size, other: True,
    ),
    "sliding": (
        lambda s, size, other, offset: s.sliding(size, every=other, offset=offset).agg(n=hp.count()),
        windows,
        lambda size, other: size // other <= 20,
    ),
    "session": (
        lambda s, size, other, offset: s.session(size).agg(n=hp.count()),
        lambda t, size, other, offset: sessions(t, size),
        lambda size, other: True,
    ),
    "chop": (
        lambda s, size, other, offset: s.alter(size).chop(other, offset=offset).select(),
        pieces,
        lambda size, other: size // other <= 20,
    ),
    "shift": (
        lambda s, size, other, offset: s.shift(offset).select(),
        lambda t, size, other, offset: moved(t, offset),
        lambda size, other: True,
    ),
    "extend": (
        lambda s, size, other, offset: s.extend(size).select(),
        lambda t, size, other, offset: lived(t, size),
        lambda size, other: True,
    ),
    "top_k": (
        lambda s, size, other, offset: s.top_k(1, by="v", size=size, offset=offset).select(),
        lambda t, size, other, offset: first_of(t, size, offset),
        lambda size, other: True,
    ),
}


@pytest.mark.parametrize("name", OPERATORS)
@given(
    times=st.lists(INSTANTS, min_size=1, max_size=6, unique=True),
    move=MOVES,
    size=SIZES,
    other=SIZES,
    offset=OFFSETS,
    chunk=st.sampled_from([1, 3, 100]),
)
@settings(deadline=None, max_examples=max(settings.default.max_examples, 150))
def test_windows_and_lifetimes_are_exact_or_refused(
    name: str, times: list[int], move: int, size: int, other: int, offset: int, chunk: int
) -> None:
    build, oracle, few = OPERATORS[name]
    if not few(size, other):
        return
    low, high = min(times) + move, max(times) + move
    if not MIN_TIME < low <= high < MAX_TIME:
        move = 0
    whole, live = (
        hp.from_arrow(
            pa.table({"t": order, "v": [-t for t in order]}), time="t", progress=hp.ordered(ahead=None)
        ).shift(move)
        for order in (times, sorted(times))
    )
    try:
        expected: Rows | None = oracle([t + move for t in times], size, other, offset)
    except Beyond:
        expected = None
    if name == "shift" and offset in (MIN_TIME, MAX_TIME):
        with pytest.raises(ParameterError, match="shift: by has no end"):
            build(whole, size, other, offset)
        return
    at_once, in_pieces = (build(s, size, other, offset) for s in (whole, live))
    for answer in (
        lambda: rows(at_once.to_arrow()),
        lambda: [row for t in in_pieces.batches(chunk, late=hp.late.error()) for row in rows(t)],
    ):
        if expected is None:
            with pytest.raises(DataError, match=r"^\w+: .* 64 bits of nanoseconds"):
                answer()
        else:
            assert sorted(answer()) == expected


def test_an_offset_counts_modulo_the_size() -> None:
    """In a process of its own, because compiled code that leaves its arrays may end the process."""
    script = """
import pyarrow as pa, hydrophone as hp
table = pa.table({"t": [1, 5, 12, 19, 27], "k": ["a", "b", "a", "b", "a"]})
stream = hp.from_arrow(table, key="k", time="t")
for offset in (2**63 - 1, 2**63 - 2, -(2**63), -(2**63) + 1, 10**18 + 3):
    print(offset, flush=True)
    a, b = (stream.tumble(10, offset=o).agg(n=hp.count()).to_arrow().sort_by([("k", "ascending"), ("t", "ascending")])
            for o in (offset, offset % 10))
    assert a.equals(b), (a, b)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"after {done.stdout.split()}: {done.stderr[-2000:]}"
    assert len(done.stdout.split()) == 5


# --- all cases, moved to the ends ------------------------------------------------------------------------------------------


def step_of(node: Node) -> int:
    """A time that all windows, hops and grids of a plan divide, so that an answer moves along with its data."""
    numbers, periods = [1], [1]
    for n in node.topological():
        for f in fields(n):
            numbers += _numbers(getattr(n, f.name))
        base = getattr(n.type, "timebase", None)
        periods += [base.period.numerator] if base is not None else []
    return lcm(*numbers) * lcm(*periods)


def _numbers(value: object) -> list[int]:
    if isinstance(value, bool) or value is None:
        return []
    if isinstance(value, int):
        return [abs(value)] if 0 < abs(value) < 2**40 else []
    if isinstance(value, Timebase):
        return [value.period.numerator]
    if isinstance(value, Fraction):
        return [abs(value.numerator) or 1, value.denominator]
    return [n for v in value for n in _numbers(v)] if isinstance(value, tuple) else []


def shifted(source: Source, by: int) -> Source:
    """The same rows at other times, as far as a source may have them."""
    table = source.table
    for name in filter(None, (source.time, source.end)):
        kind = table.schema.field(name).type
        at = pa.array(hp_times(table, name) + by).cast(
            pa.timestamp("ns", kind.tz) if pa.types.is_timestamp(kind) else kind
        )
        table = table.set_column(table.column_names.index(name), name, at)
    return Source(table, *(getattr(source, f.name) for f in fields(Source)[1:]))


def hp_times(table: pa.Table, name: str) -> np.ndarray:
    column = table[name].combine_chunks()
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ns", column.type.tz))
    return column.cast(pa.int64()).to_numpy()


ABSOLUTE = re.compile(
    "modulate|sample-function|lookup-(versions|until|many)|pattern|reservoir|by-both|goertzel|shift-frequency|source-key|"
    "where-key-and-time|with-columns|count-window-sequence|functions|apply-rough|uint64|int64-low"
)
"""Cases that look at what time it is, or count by a source's sequence; keys and sums that look like times; rounding of large numbers."""


def cases() -> list[Any]:
    """All cases that may move; but for one of every node they take their time."""
    found, seen = [], set()
    for c in ALL_CASES:
        whole = all(pa.types.is_int64(s.table.schema.field(s.time).type) for s in c.inputs.values())
        if whole and not ABSOLUTE.search(c.name):
            found.append(pytest.param(c, id=c.name, marks=[pytest.mark.soak] if c.node in seen else []))
            seen.add(c.node)
    return found


def extent(case: Case) -> tuple[int, int]:
    """The first and the last instant of a case's data."""
    there = [s for s in case.inputs.values() if len(s.table)]
    return min((int(s.starts().min()) for s in there), default=0), max((int(s.stops().max()) for s in there), default=0)


def moves(case: Case, low: int, high: int) -> list[int]:
    """How far to move a case so that it begins at the first instant, or ends at the last, as near as its windows allow."""
    first, last = extent(case)
    step = step_of(case.plan)
    both = -((first - low) // step) * step, (high - last) // step * step
    return [by for by in both if 2**62 < abs(by) < MAX_TIME]


@pytest.mark.parametrize("case", cases())
def test_cases_moved_to_the_ends_of_dates_have_the_same_answer(case: Case) -> None:
    plain = case.build().to_arrow()
    if any(s.samples for s in case.inputs.values()):
        return  # the grid of a segment goes through its start, and so would be another one
    for by in moves(case, FIRST_DATE, LAST_DATE - 2):
        query = case.build({name: shifted(s, by).stream() for name, s in case.inputs.items()})
        try:
            found = query.to_arrow()
        except DataError as error:
            assert "2**62" in str(error), error  # samples a nanosecond apart: their indices end first
        else:
            assert equal_but_for(plain, found, by), (by, plain.to_pylist()[:3], found.to_pylist()[:3])


@pytest.mark.parametrize("case", cases())
def test_cases_moved_to_the_ends_of_time_have_the_same_answer_or_none(case: Case) -> None:
    plain = case.build().to_arrow()
    for by in moves(case, MIN_TIME + 1, MAX_TIME - 1):
        try:
            query = case.build({name: _later(s.stream(), by) for name, s in case.inputs.items()})
            found = query.to_arrow()
        except (DataError, ParameterError) as error:
            assert re.match(r"\w+: .*(64 bits|2\*\*62|too many)", str(error)), error
        except PlanError:
            return  # counts by the sequence of a source, which is none any more
        else:
            assert equal_but_for(plain, found, by), (by, plain.to_pylist()[:3], found.to_pylist()[:3])


def _later(stream: Any, by: int) -> Query:
    moved: Query = stream.shift_time(by) if hasattr(stream, "shift_time") else stream.shift(by)
    return moved


def equal_but_for(a: pa.Table, b: pa.Table, by: int) -> bool:
    """Whether two answers are equal, but that times of the second are so much later.

    Sums over windows that share events are begun afresh at fixed times, so that the last digits may differ.
    """
    return a.schema == b.schema and sorted(map(str, _plain(a, 0))) == sorted(map(str, _plain(b, by)))


def _plain(table: pa.Table, by: int) -> list[Any]:
    return [[_back(v, by) for v in row] for row in rows(table)]


def _back(value: Any, by: int) -> Any:
    if isinstance(value, float):
        return float(f"{value:.7g}") + 0.0
    if isinstance(value, complex):
        return complex(_back(value.real, by), _back(value.imag, by))
    if isinstance(value, dict):
        return {k: _back(v, by) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_back(v, by) for v in value]
    return value - by if isinstance(value, int) and abs(value) > 2**61 else value


# --- lifetimes of any length, longer than 64 bits hold too -----------------------------------------------------------------

UNIT = 10**17
"""Three years: 180 of them lie between the first and the last instant, and 93 are longer than 64 bits hold."""

STRETCHED: dict[str, Callable[[Any, Callable[[int], int], int], Query]] = {
    "lasting": lambda s, d, o: s.lasting(d(20)),
    "lasting-most": lambda s, d, o: s.lasting(d(5), d(60)),
    "clip": lambda s, d, o: s.clip(d(50)),
    "extend-less": lambda s, d, o: s.extend(-d(40)),
    "stitch": lambda s, d, o: s.select("v").stitch(gap=d(6)),
    "chop": lambda s, d, o: s.chop(d(25), offset=o),
    "dead_time": lambda s, d, o: s.point_at_end().dead_time(d(30)),
    "snapshot": lambda s, d, o: s.snapshot().agg(n=hp.count(), most=hp.max("v")),
    "join": lambda s, d, o: s.join(s.select("v").with_columns(w=hp.col("v")).select("w")),
    "without": lambda s, d, o: s.select().without(s.where(hp.col("v") > 1).select()),
    "band_join": lambda s, d, o: s.band_join(s.with_columns(w=hp.col("v")).select("w"), before=d(60), after=d(30)),
    "sliding": lambda s, d, o: s.point_at_end().sliding(d(8), every=d(4), offset=o).agg(n=hp.count()),
    "session": lambda s, d, o: s.point_at_end().session(d(3)).agg(n=hp.count()),
    "frames": lambda s, d, o: _apart(s).frames("v"),
    "frames-at-least": lambda s, d, o: _apart(s).frames("v", at_least=d(30)),
    "frames-noise": lambda s, d, o: _apart(s).frames("v", noise=d(10), at_least=d(20)),
    "frames-hold": lambda s, d, o: s.point_at_end().frames("v", hold=d(8)),
    "trailing": lambda s, d, o: _trailing(s, d, changed=False),
    "trailing-changed": lambda s, d, o: _trailing(s, d, changed=True),
}
"""By operator: a query of events, of what durations are, and of where steps begin."""


def _apart(s: Any) -> Any:
    """Lifetimes that touch at most."""
    return s.where(hp.col("apart"))


def _trailing(s: Any, d: Callable[[int], int], *, changed: bool) -> Any:
    windows = _apart(s).trailing(d(40), d(90), d(10))
    return windows.agg(time=hp.duration(), sum=hp.sum("v"), mean=hp.mean("v"), n=hp.count(), by="v", changed=changed)


def stretched_rows(seed: int, unit: int, begin: int) -> pa.Table:
    """Events within 174 units: with `apart` some of all lengths that follow each other, others anywhere."""
    rng = np.random.default_rng(seed)
    cuts = [0, *sorted(rng.choice(np.arange(1, 170), rng.integers(1, 8), replace=False).tolist()), 174]
    apart = [(a, b, True) for a, b in pairwise(cuts) if rng.random() < 0.8]
    anywhere = [(*sorted(rng.choice(175, 2, replace=False).tolist()), False) for _ in range(4)]
    rows = [(a * unit + begin, b * unit + begin, int(rng.integers(3)), which) for a, b, which in apart + anywhere]
    return pa.table(dict(zip(("t", "end", "v", "apart"), map(list, zip(*rows, strict=True)), strict=True)))


@pytest.mark.parametrize("name", STRETCHED)
@pytest.mark.parametrize("chunk", [1, 100])
def test_lifetimes_of_any_length_have_the_answer_of_short_ones(name: str, chunk: int) -> None:
    """The same events with all times and durations 10**17 times as long: the answer is the same, and so much longer."""
    for seed in range(4):
        answers = []
        for unit, begin in ((1, 0), (UNIT, FIRST_DATE)):
            table = stretched_rows(seed, unit, begin)
            source = hp.from_arrow(table.sort_by("t"), time="t", end="end", progress=hp.ordered(ahead=None))
            query = STRETCHED[name](source, lambda n, unit=unit: n * unit, begin)
            found = [r for t in query.batches(chunk, late=hp.late.error()) for r in t.to_pylist()]
            times = {"t", "end", "t_right", "end_right"}
            answers.append(
                sorted(
                    str({c: (v - begin) / unit if c in times else v / unit if c in ("window", "time") else v for c, v in r.items()})
                    for r in found
                )
            )  # fmt: skip
        assert answers[0] == answers[1], seed


def test_a_reading_that_would_last_beyond_the_end_of_time_is_an_error() -> None:
    source = hp.from_arrow(pa.table({"t": [0, LAST_DATE - 1], "v": [1, 1]}), time="t")
    with pytest.raises(DataError, match=r"^frames: the time \d+ ns lies outside 64 bits"):
        source.frames("v", hold=2**61).to_arrow()


def test_a_total_of_times_that_64_bits_do_not_hold_is_an_error() -> None:
    """Three frames of 190 years are longer than 292 years together; a window with an end never is."""
    times = [FIRST_DATE, FIRST_DATE + 6 * 10**18, FIRST_DATE + 12 * 10**18, FIRST_DATE + 18 * 10**18]
    frames = hp.from_arrow(pa.table({"t": times[:3], "end": times[1:], "v": [1, 1, 1]}), time="t", end="end")
    assert frames.trailing(9 * 10**18).agg(time=hp.duration()).to_arrow()["time"].to_pylist() == [6 * 10**18] + 2 * [
        9 * 10**18
    ]
    with pytest.raises(DataError, match=r"trailing: a status has lasted longer than 64 bits"):
        frames.trailing(None).agg(time=hp.duration()).to_arrow()
