"""Time: instants and durations in int64 nanoseconds, and the exact rational grids that samples lie on."""

from __future__ import annotations

import datetime as dt
import operator
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias, cast, overload

import numpy as np
from numpy.typing import NDArray

from hydrophone.errors import ParameterError

__all__ = [
    "MAX_TIME",
    "MIN_TIME",
    "Duration",
    "Instant",
    "Ints",
    "Timebase",
    "Timebases",
    "add_time",
    "duration",
    "format_duration",
    "format_instant",
    "instant",
    "period",
]

Ints: TypeAlias = NDArray[np.int64]
Index: TypeAlias = int | np.integer[Any]
Duration: TypeAlias = str | int | Fraction | dt.timedelta | np.timedelta64
Instant: TypeAlias = str | int | dt.datetime | np.datetime64

MIN_TIME: int = -(2**63)  #: Minus infinity: before every instant.
MAX_TIME: int = 2**63 - 1  #: Plus infinity: after every instant.

# Nanoseconds, from the largest unit to the smallest.
_UNITS = {"d": 86_400 * 10**9, "h": 3_600 * 10**9, "min": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_SPELLINGS = _UNITS | {"\u00b5s": 10**3, "\u03bcs": 10**3}  # Unicode has two: the micro sign and the Greek letter.
_HERTZ = {"mHz": Fraction(1, 1000), "Hz": Fraction(1), "kHz": Fraction(10**3), "MHz": Fraction(10**6)}
_NUMPY_UNITS = {"W": Fraction(7 * _UNITS["d"]), "D": Fraction(_UNITS["d"]), "m": Fraction(_UNITS["min"])} | {
    unit: Fraction(_UNITS[unit]) for unit in ("h", "s", "ms", "us", "ns")
}
_NUMPY_UNITS |= {"ps": Fraction(1, 10**3), "fs": Fraction(1, 10**6), "as": Fraction(1, 10**9)}
_QUANTITY = re.compile(r"\s*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))\s*([^\W0-9_]+)\s*")
_SECOND_FRACTION = re.compile(r"(?<=[0-9])[.,]([0-9]+)")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def duration(value: Duration) -> int:
    """Return a length of time as a whole number of nanoseconds, exactly.

    Parameters
    ----------
    value : str, int, Fraction, datetime.timedelta or numpy.timedelta64
        Text is a decimal number and one of ``ns, us, µs, ms, s, min, h, d``; plain numbers are nanoseconds.
        The result may be negative; operators that need more say so themselves.

    Raises
    ------
    ParameterError
        When the value cannot be read, or is not a whole number of nanoseconds, or does not fit 64 bits.

    Examples
    --------
    >>> duration("20ms"), duration("1.5 s"), duration("-1d"), duration(7)
    (20000000, 1500000000, -86400000000000, 7)
    """
    return _whole("duration", value, _nanoseconds("duration", value))


def period(value: Duration) -> Fraction:
    """Return the spacing of samples as an exact positive fraction of nanoseconds.

    Parameters
    ----------
    value : str, int, Fraction, datetime.timedelta or numpy.timedelta64
        A duration, or a rate in ``mHz, Hz, kHz, MHz``.

    Raises
    ------
    ParameterError
        When the value cannot be read or is not positive.

    Examples
    --------
    >>> period("44.1kHz"), period("20ms")
    (Fraction(10000000, 441), Fraction(20000000, 1))
    """
    spacing = _from_rate(value) or _nanoseconds("period", value, rates=True)
    if spacing <= 0:
        raise ParameterError(f"period: must be positive, got {value!r}")
    return spacing


def instant(value: Instant) -> int:
    """Return a point in time as nanoseconds since 1970-01-01 UTC, exactly.

    Parameters
    ----------
    value : str, int, datetime.datetime or numpy.datetime64
        ISO text or a datetime without a zone is UTC; a plain number is nanoseconds.

    Raises
    ------
    ParameterError
        When the value cannot be read, is finer than nanoseconds, or lies outside the years 1677 to 2262.

    Examples
    --------
    >>> instant("1970-01-01T00:00:00.000000001"), instant("1970-01-01T01:00+01:00"), instant(5)
    (1, 0, 5)
    """
    match value:
        case str():
            nanoseconds = _from_iso(value)
        case dt.datetime():
            nanoseconds = _from_datetime(value)
        case np.datetime64():
            nanoseconds = _from_numpy("instant", value)
        case int() | np.integer() if not isinstance(value, (bool, np.timedelta64)):
            nanoseconds = Fraction(int(value))
        case _:
            raise ParameterError(
                f"instant: cannot read {value!r} of type {type(value).__name__}",
                hint="use ISO text, a datetime, a numpy.datetime64 or whole nanoseconds",
            )
    return _whole("instant", value, nanoseconds)


def format_duration(nanoseconds: int | Fraction) -> str:
    """Return a length of time as text, in the largest unit that keeps the number whole.

    Examples
    --------
    >>> format_duration(20_000_000), format_duration(1_500_000_000), format_duration(0)
    ('20ms', '1500ms', '0s')
    >>> format_duration(Fraction(10_000_000, 441)), format_duration(MAX_TIME)
    ('10000000/441ns', 'forever')
    """
    if nanoseconds in (MIN_TIME, MAX_TIME):
        return "forever" if nanoseconds > 0 else "-forever"
    if nanoseconds == 0:
        return "0s"
    unit = next((unit for unit, size in _UNITS.items() if nanoseconds % size == 0), "ns")
    return f"{nanoseconds / Fraction(_UNITS[unit])}{unit}"


def format_instant(nanoseconds: int) -> str:
    """Return a point in time as ISO text with nine decimals, in UTC.

    Examples
    --------
    >>> format_instant(1_500_000_000), format_instant(MAX_TIME)
    ('1970-01-01T00:00:01.500000000Z', '+infinity')
    """
    if nanoseconds in (MIN_TIME, MAX_TIME):
        return "+infinity" if nanoseconds > 0 else "-infinity"
    return f"{np.datetime64(nanoseconds, 'ns')}Z"


@overload
def add_time(t: Ints, d: int | Ints) -> Ints: ...
@overload
def add_time(t: int, d: int) -> int: ...
def add_time(t: int | Ints, d: int | Ints) -> int | Ints:
    """Return ``t + d`` that stays at the infinities and saturates instead of wrapping.

    Parameters
    ----------
    t : int or ndarray of int64
        Instants. `MIN_TIME` and `MAX_TIME` stay what they are.
    d : int or ndarray of int64
        Durations. `MIN_TIME` and `MAX_TIME` are unbounded ones.

    Examples
    --------
    >>> add_time(MAX_TIME, -5) == MAX_TIME, add_time(-5, MAX_TIME) == MAX_TIME
    (True, True)
    >>> add_time(np.array([1, MIN_TIME, MAX_TIME - 1]), 7)
    array([                   8, -9223372036854775808,  9223372036854775807])
    """
    if isinstance(t, np.ndarray) or isinstance(d, np.ndarray):
        return _add_arrays(np.asarray(t, np.int64), np.asarray(d, np.int64))
    if t in (MIN_TIME, MAX_TIME):
        return t
    return d if d in (MIN_TIME, MAX_TIME) else _clamp(t + d)


def _add_arrays(t: Ints, d: Ints) -> Ints:
    total = np.add(t, d)
    if t.size == 0 or d.size == 0 or _sum_is_tame(_extremes(t), _extremes(d)):
        return total
    # Two's complement wrapped where both operands differ in sign from the sum.
    total = np.where((t ^ total) & (d ^ total) < 0, np.where(d < 0, MIN_TIME, MAX_TIME), total)
    total = np.where(_is_infinite(d), d, total)
    return np.where(_is_infinite(t), t, total)


def _sum_is_tame(t: tuple[int, int], d: tuple[int, int]) -> bool:
    least, most = min(t[0], d[0], t[0] + d[0]), max(t[1], d[1], t[1] + d[1])
    return least > MIN_TIME and most < MAX_TIME


def _times(k: Any, size: Any) -> Any:
    """Return ``k * size`` for positive sizes, saturated."""
    if not isinstance(k, np.ndarray):
        return _clamp(k * size)
    limit = MAX_TIME // size
    if k.size == 0 or (np.ndim(limit) == 0 and -limit <= _extremes(k)[0] and _extremes(k)[1] <= limit):
        return k * size
    return np.where(k > limit, MAX_TIME, np.where(k < -limit, MIN_TIME, k * size))


def _extremes(x: Ints) -> tuple[int, int]:
    return int(x.min()), int(x.max())


def _is_infinite(t: Ints) -> NDArray[np.bool_]:
    return np.equal(t, MIN_TIME) | np.equal(t, MAX_TIME)


def _clamp(t: int) -> int:
    return min(max(t, MIN_TIME), MAX_TIME)


# The arithmetic of grids: sample k of a grid lies at origin + floor(k * num / den). Written once for Python's
# ints and for int64 arrays. It divides before it multiplies, so that with num * den below 2**63 (`_check_grid`)
# nothing overflows but what saturates.


def _grid_instant(num: Any, den: Any, origin: Any, k: Any) -> Any:
    whole = k // den
    part = (k - whole * den) * num // den
    return add_time(add_time(_times(whole, num), part), origin)


def _grid_index(num: Any, den: Any, origin: Any, t: Any) -> tuple[Any, Any]:
    """Return the first index at or after each instant, and whether it lies exactly there."""
    elapsed = add_time(t, -origin)
    whole = elapsed // num
    part = (elapsed - whole * num) * den
    up = -(-part // num)
    # floor(k * num / den) == elapsed  <=>  0 <= k * num - elapsed * den < den
    index, exact = whole * den + up, up * num - part < den
    if not isinstance(elapsed, np.ndarray):
        return (elapsed, False) if elapsed in (MIN_TIME, MAX_TIME) else (index, exact)
    infinite = _is_infinite(elapsed)
    return (np.where(infinite, elapsed, index), exact & ~infinite) if infinite.any() else (index, exact)


def _check_grid(num: int, den: int, origin: int) -> None:
    if num < den:
        raise ParameterError(
            f"timebase: the period must be at least 1ns, got {num}/{den}ns",
            hint="instants are whole nanoseconds, so samples closer than that would share one",
        )
    if num * den > MAX_TIME:
        raise ParameterError(
            f"timebase: the period {num}/{den}ns is too fine a fraction for 64-bit arithmetic",
            hint="numerator times denominator must stay below 2**63; round the period",
        )
    if not MIN_TIME < origin < MAX_TIME:
        raise ParameterError(f"timebase: the origin must be a finite instant of 64 bits, got {origin}")


@dataclass(frozen=True)
class Timebase:
    """The grid that the samples of a signal lie on: sample ``k`` at ``origin + floor(k * period)``.

    Parameters
    ----------
    period : Fraction
        Exact spacing in nanoseconds, at least 1 (44.1 kHz has no whole-nanosecond period).
    origin : int
        The instant of sample 0.

    Notes
    -----
    Indices and instants are exact wherever ``t - origin`` fits 64 bits; beyond, and at `MIN_TIME` and
    `MAX_TIME`, they saturate.

    Examples
    --------
    >>> audio = Timebase.every("44.1kHz")
    >>> audio.instant(1), audio.instant(441)
    (22675, 10000000)
    >>> audio.index_from(22676), audio.index_at(22675)
    (2, (1, True))
    """

    period: Fraction
    origin: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.period, (Fraction, int)):
            raise ParameterError(
                f"timebase: the period must be a Fraction of nanoseconds, got {self.period!r}",
                hint="Timebase.every reads text such as '20ms' and '44.1kHz'",
            )
        object.__setattr__(self, "period", Fraction(self.period))
        object.__setattr__(self, "origin", operator.index(self.origin))
        _check_grid(*self._grid)

    @classmethod
    def every(cls, spacing: Duration, *, origin: Instant = 0) -> Timebase:
        """Make a timebase from a readable period or rate.

        Examples
        --------
        >>> Timebase.every("50Hz", origin="1970-01-01T00:00:01")
        Timebase(period=Fraction(20000000, 1), origin=1000000000)
        """
        return cls(period(spacing), instant(origin))

    @property
    def _grid(self) -> tuple[int, int, int]:
        return self.period.numerator, self.period.denominator, self.origin

    @property
    def period_ns(self) -> float:
        """The spacing of samples in nanoseconds, rounded for display.

        Examples
        --------
        >>> Timebase.every("44.1kHz").period_ns
        22675.736961451246
        """
        return float(self.period)

    @property
    def rate_hz(self) -> float:
        """Samples per second, rounded for display.

        Examples
        --------
        >>> Timebase.every("44.1kHz").rate_hz
        44100.0
        """
        return float(10**9 / self.period)

    @overload
    def instant(self, k: Ints) -> Ints: ...
    @overload
    def instant(self, k: Index) -> int: ...
    def instant(self, k: Index | Ints) -> int | Ints:
        """Return the instants of samples.

        Examples
        --------
        >>> Timebase.every("20ms").instant(np.array([0, 1, 2]))
        array([       0, 20000000, 40000000])
        """
        return cast("int | Ints", _grid_instant(*self._grid, _operand(k)))

    @overload
    def index_from(self, t: Ints) -> Ints: ...
    @overload
    def index_from(self, t: Index) -> int: ...
    def index_from(self, t: Index | Ints) -> int | Ints:
        """Return the smallest index whose instant is not before `t`.

        Examples
        --------
        >>> Timebase.every("20ms").index_from(np.array([0, 1, 20_000_000]))
        array([0, 1, 1])
        """
        return cast("int | Ints", _grid_index(*self._grid, _operand(t))[0])

    @overload
    def index_at(self, t: Ints) -> tuple[Ints, NDArray[np.bool_]]: ...
    @overload
    def index_at(self, t: Index) -> tuple[int, bool]: ...
    def index_at(self, t: Index | Ints) -> tuple[int | Ints, bool | NDArray[np.bool_]]:
        """Return the index whose instant is `t`, and whether there is one.

        Where there is none, the index is that of `index_from`.

        Examples
        --------
        >>> Timebase.every("20ms").index_at(np.array([0, 1, 20_000_000]))
        (array([0, 1, 1]), array([ True, False,  True]))
        """
        return _grid_index(*self._grid, _operand(t))

    def same_grid(self, other: Timebase) -> bool:
        """Whether the samples of both lie on the same instants, be the indices shifted or not.

        Examples
        --------
        >>> Timebase.every("20ms").same_grid(Timebase.every("20ms", origin=40_000_000))
        True
        >>> Timebase.every("20ms").same_grid(Timebase.every("20ms", origin=1))
        False
        """
        return self.period == other.period and (other.origin - self.origin) % self.period.numerator == 0

    def shifted(self, by: Duration) -> Timebase:
        """Return the grid with every sample moved in time by a duration.

        Examples
        --------
        >>> Timebase.every("20ms").shifted("-5ms")
        Timebase(period=Fraction(20000000, 1), origin=-5000000)
        """
        return Timebase(self.period, add_time(self.origin, duration(by)))

    def decimated(self, n: int) -> Timebase:
        """Return the grid of every `n`-th sample: its sample ``k`` is sample ``n * k`` of this one.

        Examples
        --------
        >>> Timebase.every("44.1kHz").decimated(441)
        Timebase(period=Fraction(10000000, 1), origin=0)
        """
        if n < 1:
            raise ParameterError(f"decimated: n must be at least 1, got {n}")
        return Timebase(self.period * n, self.origin)


@dataclass(frozen=True, eq=False)
class Timebases:
    """The timebases of many key slots: one row that all slots share, or one row per slot.

    Parameters
    ----------
    num, den, origin : ndarray of int64
        Numerator and denominator of the period in nanoseconds, and the instant of sample 0.

    Notes
    -----
    `of`, `take` and `extend` turn equal rows into one shared row, which is the fast case.

    Examples
    --------
    >>> grids = Timebases.of([Timebase.every("20ms"), Timebase.every("44.1kHz")])
    >>> grids.instant(np.array([0, 1, 1]), np.array([1, 1, 2]))
    array([20000000,    22675,    45351])
    """

    num: Ints
    den: Ints
    origin: Ints

    def __post_init__(self) -> None:
        if not len(self.num) == len(self.den) == len(self.origin):
            raise ParameterError("timebases: num, den and origin must be equally long")
        wrong = (self.den < 1) | (self.num < self.den) | _is_infinite(self.origin)
        wrong |= self.num > MAX_TIME // np.maximum(self.den, 1)
        for row in np.flatnonzero(wrong)[:1]:
            _check_grid(int(self.num[row]), int(self.den[row]), int(self.origin[row]))
            raise ParameterError(f"timebases: the denominator of row {row} must be positive, got {self.den[row]}")

    @classmethod
    def shared(cls, timebase: Timebase) -> Timebases:
        """Make the table in which all slots, however many, have one timebase.

        Examples
        --------
        >>> Timebases.shared(Timebase.every("20ms"))[7]
        Timebase(period=Fraction(20000000, 1), origin=0)
        """
        return cls.of([timebase])

    @classmethod
    def of(cls, timebases: Iterable[Timebase]) -> Timebases:
        """Make the table of slots 0, 1, 2, ….

        Examples
        --------
        >>> Timebases.of([Timebase.every("20ms", origin=k) for k in (3, 5)])[1]
        Timebase(period=Fraction(20000000, 1), origin=5)
        """
        rows = np.array([timebase._grid for timebase in timebases], np.int64).reshape(-1, 3)
        return cls(rows[:, 0].copy(), rows[:, 1].copy(), rows[:, 2].copy())._condensed()

    @property
    def single(self) -> Timebase | None:
        """The timebase that all slots share, or None.

        Examples
        --------
        >>> Timebases.of([Timebase.every("20ms"), Timebase.every("10ms")]).single is None
        True
        """
        return self[0] if len(self.num) == 1 else None

    def __getitem__(self, slot: Index) -> Timebase:
        row = 0 if len(self.num) == 1 else slot
        return Timebase(Fraction(int(self.num[row]), int(self.den[row])), int(self.origin[row]))

    def instant(self, slot: Ints, k: Ints) -> Ints:
        """Return the instant of sample ``k[i]`` of slot ``slot[i]``.

        Examples
        --------
        >>> Timebases.shared(Timebase.every("20ms")).instant(np.array([0, 5]), np.array([1, 2]))
        array([20000000, 40000000])
        """
        return cast("Ints", _grid_instant(*self._rows(slot), k))

    def index_from(self, slot: Ints, t: Ints) -> Ints:
        """Return the smallest index of slot ``slot[i]`` whose instant is not before ``t[i]``.

        Examples
        --------
        >>> Timebases.shared(Timebase.every("20ms")).index_from(np.array([0, 5]), np.array([1, 40_000_000]))
        array([1, 2])
        """
        return cast("Ints", _grid_index(*self._rows(slot), t)[0])

    def index_at(self, slot: Ints, t: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        """Return the index of slot ``slot[i]`` whose instant is ``t[i]``, and whether there is one.

        Where there is none, the index is that of `index_from`.

        Examples
        --------
        >>> Timebases.shared(Timebase.every("20ms")).index_at(np.array([0, 5]), np.array([1, 40_000_000]))
        (array([1, 2]), array([False,  True]))
        """
        return _grid_index(*self._rows(slot), t)

    def take(self, slots: Ints) -> Timebases:
        """Return the table whose slot ``i`` is this table's slot ``slots[i]``.

        Examples
        --------
        >>> Timebases.of([Timebase.every("20ms"), Timebase.every("10ms")]).take(np.array([1, 1])).single
        Timebase(period=Fraction(10000000, 1), origin=0)
        """
        if len(self.num) == 1:
            return self
        return Timebases(self.num[slots], self.den[slots], self.origin[slots])._condensed()

    def rows(self, slots: Ints) -> tuple[Ints, Ints, Ints]:
        """Return (num, den, origin) of each of these slots.

        Examples
        --------
        >>> Timebases.shared(Timebase.every("20ms")).rows(np.array([4, 7]))[0]
        array([20000000, 20000000])
        """
        rows = self.num, self.den, self.origin
        picked = (np.broadcast_to(x, len(slots)) if len(x) == 1 else x[slots] for x in rows)
        return cast("tuple[Ints, Ints, Ints]", tuple(picked))

    @classmethod
    def scatter(cls, slots: Ints, num: Ints, den: Ints, origin: Ints) -> Timebases:
        """Make the table in which slot ``slots[i]`` has row i; slots in between get a placeholder.

        Examples
        --------
        >>> Timebases.scatter(np.array([2, 0]), np.array([5, 7]), np.array([1, 1]), np.array([0, 0])).num
        array([7, 1, 5])
        """
        if len(slots) and all((x == x[0]).all() for x in (num, den, origin)):
            return cls(num[:1].copy(), den[:1].copy(), origin[:1].copy())
        size = int(slots.max(initial=0)) + 1
        table = np.ones(size, np.int64), np.ones(size, np.int64), np.zeros(size, np.int64)
        for column, values in zip(table, (num, den, origin), strict=True):
            column[slots] = values
        return cls(*table)

    def extend(self, slots: int, more: Timebases, more_slots: int) -> Timebases:
        """Return the table of this one's first `slots` slots followed by `more_slots` of another.

        The counts are needed because a shared row does not know for how many slots it stands.

        Examples
        --------
        >>> one, two = Timebase.every("20ms"), Timebase.every("10ms")
        >>> Timebases.shared(one).extend(3, Timebases.shared(two), 2).num
        array([20000000, 20000000, 20000000, 10000000, 10000000])
        """
        pairs = zip(self._spread(slots), more._spread(more_slots), strict=True)
        return Timebases(*(np.concatenate(pair) for pair in pairs))._condensed()

    def _rows(self, slot: Ints) -> tuple[int | Ints, int | Ints, int | Ints]:
        if len(self.num) == 1:  # Plain ints: NumPy divides by a scalar several times faster.
            return int(self.num[0]), int(self.den[0]), int(self.origin[0])
        return self.num[slot], self.den[slot], self.origin[slot]

    def _spread(self, slots: int) -> tuple[Ints, Ints, Ints]:
        rows = self.num, self.den, self.origin
        return cast(
            "tuple[Ints, Ints, Ints]", tuple(np.broadcast_to(x, slots) if len(x) == 1 else x[:slots] for x in rows)
        )

    def _condensed(self) -> Timebases:
        rows = self.num, self.den, self.origin
        if len(self.num) > 1 and all((x == x[0]).all() for x in rows):
            return Timebases(*(x[:1].copy() for x in rows))
        return self


def _operand(x: Index | Ints) -> int | Ints:
    return x if isinstance(x, np.ndarray) and x.ndim else operator.index(x)


def _nanoseconds(what: str, value: Duration, *, rates: bool = False) -> Fraction:
    match value:
        case str():
            return _from_text(what, value, rates=rates)
        case dt.timedelta():
            return _from_timedelta(what, value)
        case np.timedelta64():
            return _from_numpy(what, value)
        case Fraction() | int() | np.integer() if not isinstance(value, bool):
            return Fraction(int(value) if isinstance(value, np.integer) else value)
    raise ParameterError(
        f"{what}: cannot read {value!r} of type {type(value).__name__}",
        hint="write the unit, as in '20ms'; plain whole numbers and Fractions are nanoseconds",
    )


def _whole(what: str, value: object, nanoseconds: Fraction) -> int:
    if nanoseconds.denominator != 1:
        raise ParameterError(f"{what}: {value!r} is not a whole number of nanoseconds")
    if not MIN_TIME <= nanoseconds <= MAX_TIME:
        raise ParameterError(f"{what}: {value!r} does not fit 64 bits of nanoseconds (292 years either way)")
    return int(nanoseconds)


def _from_text(what: str, text: str, *, rates: bool) -> Fraction:
    match = _QUANTITY.fullmatch(text)
    if match is None or match[2] not in _SPELLINGS:
        units = ", ".join([*reversed(_UNITS), *(_HERTZ if rates else ())])
        raise ParameterError(f"{what}: cannot read {text!r}; write a number and one of: {units}")
    return Fraction(match[1]) * _SPELLINGS[match[2]]


def _from_rate(value: Duration) -> Fraction | None:
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2] not in _HERTZ:
        return None
    rate = Fraction(match[1]) * _HERTZ[match[2]]
    if rate <= 0:
        raise ParameterError(f"period: the rate must be positive, got {value!r}")
    return 10**9 / rate


def _from_timedelta(what: str, value: dt.timedelta) -> Fraction:
    _check_not_missing(what, value)
    # pandas.Timedelta is a timedelta that also has nanoseconds.
    seconds = value.days * 86_400 + value.seconds
    return Fraction(seconds * 10**9 + value.microseconds * 1000 + getattr(value, "nanoseconds", 0))


def _from_datetime(value: dt.datetime) -> Fraction:
    _check_not_missing("instant", value)
    aware = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
    # pandas.Timestamp is a datetime that also has nanoseconds, and whose difference may keep them.
    plain = dt.datetime(*aware.timetuple()[:6], aware.microsecond, aware.tzinfo, fold=aware.fold)
    return _from_timedelta("instant", plain - _EPOCH) + getattr(value, "nanosecond", 0)


def _from_numpy(what: str, value: np.datetime64 | np.timedelta64) -> Fraction:
    _check_not_missing(what, value)
    unit, count = np.datetime_data(value.dtype)
    if unit in ("Y", "M") and isinstance(value, np.datetime64):
        return _from_numpy(what, value.astype("datetime64[D]"))
    if unit not in _NUMPY_UNITS:
        raise ParameterError(f"{what}: {value!r} has no fixed length", hint="use weeks, days or a smaller unit")
    return int(value.astype(np.int64)) * count * _NUMPY_UNITS[unit]


def _from_iso(text: str) -> Fraction:
    match = _SECOND_FRACTION.search(text)
    fraction = Fraction(int(match[1]) * 10**9, 10 ** len(match[1])) if match else Fraction(0)
    try:
        # datetime keeps six decimals, so the fraction of the second goes its own way.
        return _from_datetime(dt.datetime.fromisoformat(_SECOND_FRACTION.sub("", text, count=1))) + fraction
    except ValueError as error:
        raise ParameterError(f"instant: cannot read {text!r}", hint="as in '2024-03-01T12:00:00.5Z'") from error


def _check_not_missing(what: str, value: Any) -> None:
    if value != value:  # NaT, NumPy's and pandas'
        raise ParameterError(f"{what}: the value is missing ({value!r})")
