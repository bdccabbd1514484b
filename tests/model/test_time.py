"""Instants, durations and timebases against Python's Fraction arithmetic."""

import datetime as dt
import math
import pickle
import zoneinfo
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from hydrophone.errors import ParameterError
from hydrophone.model.time import (
    MAX_TIME,
    MIN_TIME,
    add_time,
    duration,
    format_duration,
    format_instant,
    instant,
    period,
)
from hydrophone.model.timebase import Timebase, Timebases

EPOCH = dt.datetime(1970, 1, 1)
YEAR_1970, YEAR_2200 = 0, instant("2200-01-01")
AUDIO = Timebase.every("44.1kHz")

int64s = st.integers(MIN_TIME, MAX_TIME) | st.sampled_from([MIN_TIME, MIN_TIME + 1, -1, 0, 1, MAX_TIME - 1, MAX_TIME])
instants = st.integers(YEAR_1970, YEAR_2200)
periods = st.one_of(
    st.sampled_from([period("44.1kHz"), period("48kHz"), period("20ms"), period("1h"), period(1), period("29.97Hz")]),
    st.builds(Fraction, st.integers(1, 10**12), st.integers(1, 9_000_000)).filter(lambda p: p >= 1),
)
timebases = st.builds(Timebase, periods, instants)


def oracle_instant(base: Timebase, k: int) -> int:
    return base.origin + math.floor(k * base.period)


def oracle_index(base: Timebase, t: int) -> int:
    return math.ceil(Fraction(t - base.origin) / base.period)


# --- durations, periods, instants -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "nanoseconds"),
    [
        ("20ms", 20 * 10**6),
        ("1.5s", 1_500_000_000),
        ("5min", 300 * 10**9),
        ("1h", 3600 * 10**9),
        ("2d", 172_800 * 10**9),
        ("100us", 100_000),
        ("100\u00b5s", 100_000),
        ("100\u03bcs", 100_000),
        ("7ns", 7),
        ("0s", 0),
        (" -20 ms ", -20 * 10**6),
        ("+.5us", 500),
        ("1.000000001s", 10**9 + 1),
        (12, 12),
        (np.int32(12), 12),
        (Fraction(24, 2), 12),
        (dt.timedelta(days=-1, microseconds=3), -86_400 * 10**9 + 3000),
        (dt.timedelta.resolution, 1000),
        (pd.Timedelta(nanoseconds=-1), -1),
        (np.timedelta64(3, "W"), 21 * 86_400 * 10**9),
        (np.timedelta64(3, "m"), 180 * 10**9),
        (np.timedelta64(5000, "ps"), 5),
        (np.timedelta64(25, "10ms"), 250 * 10**6),
    ],
)
def test_duration(value: object, nanoseconds: int) -> None:
    result = duration(value)
    assert result == nanoseconds
    assert type(result) is int


@pytest.mark.parametrize(
    "value",
    ["", "20", "ms", "20 parsecs", "20m", "1e3s", "1,5s", "50Hz", "nan s", "٣s", "1h30min"],
)
def test_unreadable_duration_names_text_and_units(value: str) -> None:
    with pytest.raises(ParameterError) as error:
        duration(value)
    assert repr(value) in str(error.value)
    assert "ns, us, ms, s, min, h, d" in str(error.value)


@pytest.mark.parametrize(
    "value",
    [
        "0.5ns",
        Fraction(1, 3),
        np.timedelta64(1, "ps"),
        "300000d",
        2**63,
        1.5,
        True,
        None,
        b"20ms",
        np.timedelta64("NaT"),
        pd.NaT,
        np.timedelta64(1, "M"),
        np.timedelta64(1),
    ],
)
def test_duration_is_exact_or_refused(value: object) -> None:
    with pytest.raises(ParameterError, match=r"^duration: "):
        duration(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("44.1kHz", Fraction(10**7, 441)),
        ("50Hz", Fraction(20 * 10**6)),
        ("1 MHz", Fraction(1000)),
        ("500mHz", Fraction(2 * 10**9)),
        ("20ms", Fraction(20 * 10**6)),
        ("0.5ns", Fraction(1, 2)),
        (Fraction(10, 3), Fraction(10, 3)),
        (5, Fraction(5)),
        (dt.timedelta(seconds=1), Fraction(10**9)),
        (np.timedelta64(1, "ps"), Fraction(1, 1000)),
    ],
)
def test_period(value: object, expected: Fraction) -> None:
    result = period(value)
    assert result == expected
    assert type(result) is Fraction


@pytest.mark.parametrize("value", ["0s", "-20ms", "0Hz", "-1kHz", 0, -3, "20khz", "x", 2.0, None])
def test_period_refuses(value: object) -> None:
    with pytest.raises(ParameterError, match=r"^period: "):
        period(value)


@pytest.mark.parametrize(
    ("value", "nanoseconds"),
    [
        (5, 5),
        (np.int64(-5), -5),
        (MIN_TIME, MIN_TIME),
        (MAX_TIME, MAX_TIME),
        ("1970-01-01", 0),
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01 00:00:00.1234567890", 123_456_789),
        ("1970-01-01T00:00:00,5", 500_000_000),
        ("1969-12-31T23:59:59.999999999", -1),
        ("1970-01-01T02:00:00.000000001+02:00", 1),
        (dt.datetime(1970, 1, 1, 0, 0, 1, 5), 10**9 + 5000),
        (dt.datetime(1970, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2))), 0),
        (pd.Timestamp(1_234_567_891), 1_234_567_891),
        (pd.Timestamp(1_234_567_891, tz="Asia/Tokyo"), 1_234_567_891),
        (np.datetime64("1971-01"), 365 * 86_400 * 10**9),
        (np.datetime64("1970-01-01T00:00:00.000000001"), 1),
        (np.datetime64(3000, "ps"), 3),
    ],
)
def test_instant(value: object, nanoseconds: int) -> None:
    result = instant(value)
    assert result == nanoseconds
    assert type(result) is int


@pytest.mark.parametrize("fold", [0, 1])
def test_instant_of_a_repeated_hour(fold: int) -> None:
    local = dt.datetime(2024, 10, 27, 2, 30, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"), fold=fold)
    assert instant(local) == int(local.timestamp()) * 10**9


@pytest.mark.parametrize(
    "value",
    [
        "",
        "yesterday",
        "2024-13-01",
        "1600-01-01",
        "1970-01-01T00:00:00.0000000001",
        1.5,
        True,
        None,
        np.datetime64("NaT"),
        pd.NaT,
        np.timedelta64(1, "s"),
        np.datetime64(1, "ps"),
        2**63,
    ],
)
def test_instant_refuses(value: object) -> None:
    with pytest.raises(ParameterError, match=r"^instant: "):
        instant(value)


@given(instants | st.integers(MIN_TIME + 1, MAX_TIME - 1))
def test_instant_text_round_trip(t: int) -> None:
    assert instant(format_instant(t)) == t


@given(st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2250, 1, 1)))
def test_instants_of_datetime_iso_and_numpy_agree(moment: dt.datetime) -> None:
    expected = (moment - EPOCH) // dt.timedelta.resolution * 1000
    assert instant(moment) == instant(moment.isoformat()) == instant(np.datetime64(moment)) == expected


@given(st.integers(MIN_TIME + 1, MAX_TIME - 1))
def test_duration_text_round_trip(d: int) -> None:
    assert duration(format_duration(d)) == d


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (7, "7ns"),
        (-20_000_000, "-20ms"),
        (5_400 * 10**9, "90min"),
        (Fraction(1, 3), "1/3ns"),
        (Fraction(20_000_000), "20ms"),
        (MAX_TIME, "forever"),
        (MIN_TIME, "-forever"),
    ],
)
def test_format_duration(nanoseconds: int | Fraction, text: str) -> None:
    assert format_duration(nanoseconds) == text


def test_format_instant_at_the_infinities() -> None:
    assert (format_instant(MIN_TIME), format_instant(MAX_TIME)) == ("-infinity", "+infinity")


# --- saturating addition --------------------------------------------------------------------------------------


def oracle_add(t: int, d: int) -> int:
    for x in (t, d):
        if x in (MIN_TIME, MAX_TIME):
            return x
    return min(max(t + d, MIN_TIME), MAX_TIME)


@given(st.lists(st.tuples(int64s, int64s), max_size=8))
def test_add_time(pairs: list[tuple[int, int]]) -> None:
    expected = [oracle_add(t, d) for t, d in pairs]
    assert [add_time(t, d) for t, d in pairs] == expected
    t, d = np.array(pairs, np.int64).reshape(-1, 2).T
    assert add_time(t, d).tolist() == expected
    for fixed in d[:1].tolist():
        assert add_time(t, fixed).tolist() == [oracle_add(x, fixed) for x in t.tolist()]


def test_add_time_of_nothing() -> None:
    assert add_time(np.array([], np.int64), 5).shape == (0,)


# --- one grid -------------------------------------------------------------------------------------------------


@given(timebases, st.lists(st.integers(-(10**6), 10**6) | st.integers(0, 2 * 10**14), min_size=1))
@example(AUDIO, [44_100 * 86_400 * 365 * 200])
def test_instant_of_sample(base: Timebase, k: list[int]) -> None:
    expected = [oracle_instant(base, x) for x in k]
    expected = [min(max(x, MIN_TIME), MAX_TIME) for x in expected]
    assert [base.instant(x) for x in k] == expected
    assert base.instant(np.array(k, np.int64)).tolist() == expected


@given(timebases, st.lists(instants, min_size=1))
def test_index_from(base: Timebase, t: list[int]) -> None:
    expected = [oracle_index(base, x) for x in t]
    assert [base.index_from(x) for x in t] == expected
    assert base.index_from(np.array(t, np.int64)).tolist() == expected
    for x, k in zip(t, expected, strict=True):
        assert oracle_instant(base, k - 1) < x <= oracle_instant(base, k)


@given(timebases, st.lists(instants, min_size=1), st.lists(st.integers(0, 10**7), min_size=1))
def test_index_at(base: Timebase, t: list[int], k: list[int]) -> None:
    t = t + [oracle_instant(base, x) for x in k if oracle_instant(base, x) < YEAR_2200]
    index = [oracle_index(base, x) for x in t]
    on_grid = [oracle_instant(base, i) == x for i, x in zip(index, t, strict=True)]
    assert [base.index_at(x) for x in t] == list(zip(index, on_grid, strict=True))
    found, mask = base.index_at(np.array(t, np.int64))
    assert (found.tolist(), mask.tolist()) == (index, on_grid)


@given(timebases, st.lists(st.integers(0, 10**6), min_size=1))
def test_index_undoes_instant(base: Timebase, k: list[int]) -> None:
    wanted = np.array(k, np.int64)
    index, on_grid = base.index_at(base.instant(wanted))
    assert index.tolist() == k
    assert on_grid.all()


def test_audio_stays_exact_over_centuries() -> None:
    base = Timebase.every("44.1kHz", origin="1970-01-01")
    # 441 samples are exactly 10 ms, whatever the century.
    for year in range(1970, 2201, 10):
        second = instant(f"{year}-06-01") // 10**9
        assert base.index_at(second * 10**9) == (second * 44_100, True)
        assert base.instant(second * 44_100 + 1) == second * 10**9 + 22_675
        assert base.index_at(second * 10**9 + 22_676) == (second * 44_100 + 2, False)


@given(timebases)
def test_infinities_map_to_infinities(base: Timebase) -> None:
    ends = np.array([MIN_TIME, base.origin, MAX_TIME])
    index, on_grid = base.index_at(ends)
    assert index.tolist() == [MIN_TIME, 0, MAX_TIME]
    assert on_grid.tolist() == [False, True, False]
    assert base.instant(index).tolist() == ends.tolist()
    for t, k in zip(ends.tolist(), index.tolist(), strict=True):
        assert (base.index_from(t), base.instant(k)) == (k, t)


@given(timebases, st.lists(int64s, min_size=1))
def test_scalars_and_arrays_agree_everywhere(base: Timebase, x: list[int]) -> None:
    array = np.array(x, np.int64)
    index, on_grid = base.index_at(array)
    assert list(zip(index.tolist(), on_grid.tolist(), strict=True)) == [base.index_at(v) for v in x]
    assert base.instant(array).tolist() == [base.instant(v) for v in x]


@given(timebases, int64s, int64s)
def test_index_and_instant_are_monotone_even_where_they_saturate(base: Timebase, a: int, b: int) -> None:
    a, b = sorted((a, b))
    assert base.index_from(a) <= base.index_from(b)
    assert base.instant(a) <= base.instant(b)


def test_numpy_scalars_and_zero_dimensions_give_ints() -> None:
    for k in (np.int64(441), np.array(441), np.int32(441)):
        assert type(AUDIO.instant(k)) is int
        assert AUDIO.instant(k) == 10**7
    assert AUDIO.instant(np.array([[0], [441]])).shape == (2, 1)
    assert AUDIO.index_from(np.array([], np.int64)).shape == (0,)


@given(timebases, st.integers(-50, 50), st.integers(-(10**9), 10**9))
def test_same_grid_means_same_instants(base: Timebase, m: int, d: int) -> None:
    whole = base.period.numerator * m
    moved = Timebase(base.period, base.origin + whole)
    assert base.same_grid(moved)
    assert moved.instant(7) == base.instant(7 + m * base.period.denominator)
    other = Timebase(base.period, base.origin + d)
    assert base.same_grid(other) == other.same_grid(base) == (Fraction(d) / base.period % 1 == 0)


def test_same_grid_needs_the_same_period() -> None:
    assert not Timebase.every("20ms").same_grid(Timebase.every("10ms"))


@given(timebases, st.integers(1, 1000), st.integers(0, 10**6))
def test_decimated(base: Timebase, n: int, k: int) -> None:
    assume(base.period.numerator * base.period.denominator * n <= MAX_TIME)
    assert base.decimated(n).instant(k) == base.instant(n * k)


@given(timebases, st.integers(-(10**15), 10**15), st.integers(0, 10**6))
def test_shifted(base: Timebase, d: int, k: int) -> None:
    assert base.shifted(d).instant(k) == base.instant(k) + d


@pytest.mark.parametrize("n", [0, -1])
def test_decimated_refuses(n: int) -> None:
    with pytest.raises(ParameterError, match="at least 1"):
        AUDIO.decimated(n)


@pytest.mark.parametrize(
    ("spacing", "origin", "rule"),
    [
        (Fraction(1, 2), 0, "at least 1ns"),
        (Fraction(-5), 0, "at least 1ns"),
        (Fraction(2**40 + 1, 2**30), 0, "64-bit"),
        (Fraction(5), MIN_TIME, "finite"),
        (Fraction(5), MAX_TIME, "finite"),
        (Fraction(5), 2**63, "finite"),
        (20.0, 0, "Fraction"),
        ("20ms", 0, "Timebase.every"),
    ],
)
def test_timebase_refuses(spacing: Fraction, origin: int, rule: str) -> None:
    with pytest.raises(ParameterError, match=rule):
        Timebase(spacing, origin)


def test_the_finest_fraction_that_fits() -> None:
    base = Timebase(Fraction(2**32 + 1, 2**30), 10**18)
    k = np.array([2**31 - 1, -(2**31) + 1, 2**60, -(2**60)])
    assert base.instant(k).tolist() == [min(max(oracle_instant(base, x), MIN_TIME), MAX_TIME) for x in k.tolist()]


def test_timebase_is_a_value() -> None:
    assert pickle.loads(pickle.dumps(AUDIO)) == AUDIO
    assert len({AUDIO, Timebase(Fraction(10**7, 441))}) == 1
    assert Timebase(20, np.int64(3)) == Timebase(Fraction(20), 3)
    assert (AUDIO.rate_hz, AUDIO.period_ns) == (44_100.0, pytest.approx(22_675.7369614512))


# --- many grids -----------------------------------------------------------------------------------------------

tables = st.lists(timebases, min_size=1, max_size=5)


@given(tables, st.data())
def test_table_equals_its_rows(bases: list[Timebase], data: st.DataObject) -> None:
    table = Timebases.of(bases)
    slot = np.array(data.draw(st.lists(st.integers(0, len(bases) - 1), min_size=1)))
    x = data.draw(st.lists(int64s | instants, min_size=len(slot), max_size=len(slot)))
    rows = [bases[i] for i in slot]
    values = np.array(x, np.int64)
    assert table.instant(slot, values).tolist() == [b.instant(v) for b, v in zip(rows, x, strict=True)]
    assert table.index_from(slot, values).tolist() == [b.index_from(v) for b, v in zip(rows, x, strict=True)]
    index, on_grid = table.index_at(slot, values)
    expected = [b.index_at(v) for b, v in zip(rows, x, strict=True)]
    assert list(zip(index.tolist(), on_grid.tolist(), strict=True)) == expected
    assert [table[i] for i in slot] == rows
    taken = table.take(slot)
    assert [taken[i] for i in range(len(slot))] == rows
    assert table.single == (bases[0] if len(set(bases)) == 1 else None)


@given(tables, tables)
def test_extend(first: list[Timebase], second: list[Timebase]) -> None:
    table = Timebases.of(first).extend(len(first), Timebases.of(second), len(second))
    assert [table[i] for i in range(len(first) + len(second))] == first + second


def test_shared_row_serves_any_slot_and_shape() -> None:
    table = Timebases.shared(AUDIO)
    assert table.single == table[12] == AUDIO
    assert table.take(np.array([4, 5])) is table
    assert table.extend(3, table, 9).single == AUDIO
    assert table.extend(0, Timebases.shared(Timebase(Fraction(5))), 2).single == Timebase(Fraction(5))
    assert table.instant(np.array([[9], [8]]), np.array([[0, 441], [882, 0]])).tolist() == [[0, 10**7], [2 * 10**7, 0]]


def test_a_table_of_no_slots() -> None:
    table = Timebases.of([])
    nothing = np.array([], np.int64)
    assert table.single is None
    assert table.instant(nothing, nothing).shape == (0,)
    assert table.extend(0, Timebases.shared(AUDIO), 4).single == AUDIO


@pytest.mark.parametrize(
    ("num", "den", "origin"),
    [([5, 1], [1, 2], [0, 0]), ([5], [0], [0]), ([2**40], [2**30], [0]), ([5], [1], [MIN_TIME]), ([5, 5], [1], [0])],
)
def test_table_refuses(num: list[int], den: list[int], origin: list[int]) -> None:
    with pytest.raises(ParameterError, match=r"^timebase"):
        Timebases(np.array(num), np.array(den), np.array(origin))


def test_table_pickles() -> None:
    table = pickle.loads(pickle.dumps(Timebases.of([AUDIO, Timebase(Fraction(5), 3)])))
    assert (table[0], table[1]) == (AUDIO, Timebase(Fraction(5), 3))


@pytest.mark.parametrize("origin", [0, 1, -1, 2**62, -(2**62), MAX_TIME - 3, MIN_TIME + 3])
def test_indices_of_arrays_are_those_of_numbers_at_the_ends_of_time(origin: int) -> None:
    """A difference that wraps is undefined in compiled code, where a look whether it has may be left out."""
    base = Timebase(Fraction(7, 2), origin)
    times = np.array([MIN_TIME, MIN_TIME + 1, -1, 0, 1, 2**62, -(2**62), MAX_TIME - 1, MAX_TIME])
    index, exact = base.index_at(times)
    assert list(zip(index.tolist(), exact.tolist(), strict=True)) == [base.index_at(int(t)) for t in times]
