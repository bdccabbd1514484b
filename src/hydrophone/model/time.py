"""Time: instants and durations in int64 nanoseconds, how people write them, and sums that stay in range."""

from __future__ import annotations

import datetime as dt
import re
from fractions import Fraction
from typing import Any, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from hydrophone.errors import DataError, ParameterError

__all__ = [
    "FIRST_DATE",
    "LAST_DATE",
    "MAX_TIME",
    "MIN_TIME",
    "Duration",
    "Index",
    "Instant",
    "Ints",
    "add_time",
    "check_finite",
    "duration",
    "exact_sum",
    "format_duration",
    "format_instant",
    "instant",
    "is_infinite",
    "multiples",
    "period",
    "step_number",
    "time_apart",
    "time_out_of_range",
]

Ints: TypeAlias = NDArray[np.int64]
Index: TypeAlias = int | np.integer[Any]
Duration: TypeAlias = str | int | Fraction | dt.timedelta | np.timedelta64
Instant: TypeAlias = str | int | dt.datetime | np.datetime64

MIN_TIME: int = -(2**63)  #: Minus infinity: before every instant.
MAX_TIME: int = 2**63 - 1  #: Plus infinity: after every instant.

# Events lie between 1682 and 2258. This leaves four years on either side of the 64-bit range, so that windows around events, and events
# that are moved or extended, do not wrap. Marks are not limited.
FIRST_DATE: int = -105_189 * 86_400 * 10**9
LAST_DATE: int = 105_190 * 86_400 * 10**9

# Nanoseconds, from the largest unit to the smallest.
_UNITS = {"d": 86_400 * 10**9, "h": 3_600 * 10**9, "min": 60 * 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_SPELLINGS = (
    _UNITS | {"w": 7 * _UNITS["d"]} | {"\u00b5s": 10**3, "\u03bcs": 10**3}
)  # Unicode has two: the micro sign and the Greek letter.
_HERTZ = {"mHz": Fraction(1, 1000), "Hz": Fraction(1), "kHz": Fraction(10**3), "MHz": Fraction(10**6)}
_NUMPY_UNITS = {"W": Fraction(7 * _UNITS["d"]), "D": Fraction(_UNITS["d"]), "m": Fraction(_UNITS["min"])} | {
    unit: Fraction(_UNITS[unit]) for unit in ("h", "s", "ms", "us", "ns")
}
_NUMPY_UNITS |= {"ps": Fraction(1, 10**3), "fs": Fraction(1, 10**6), "as": Fraction(1, 10**9)}
_QUANTITY = re.compile(r"\s*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))\s*([^\W0-9_]+)\s*")
_SECOND_FRACTION = re.compile(r"(?<=[0-9])[.,]([0-9]+)")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def scalar(value: Any) -> Any:
    """What an array without dimensions holds, as NumPy's functions give it; all else as it is.

    Examples
    --------
    >>> scalar(np.array(3)), scalar("3")
    (np.int64(3), '3')
    """
    return value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value


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
    value = scalar(value)
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


def format_instant(nanoseconds: int, zoned: bool = False) -> str:
    """Return a point in time as ISO text with nine decimals; with a Z only where it is known to have a zone, which is UTC then.

    Examples
    --------
    >>> format_instant(1_500_000_000), format_instant(MAX_TIME)
    ('1970-01-01T00:00:01.500000000', '+infinity')
    >>> format_instant(1_500_000_000, zoned=True)
    '1970-01-01T00:00:01.500000000Z'
    """
    if nanoseconds in (MIN_TIME, MAX_TIME):
        return "+infinity" if nanoseconds > 0 else "-infinity"
    return f"{np.datetime64(nanoseconds, 'ns')}{'Z' if zoned else ''}"


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
        return _add_arrays(t, d)
    if t in (MIN_TIME, MAX_TIME):
        return t
    return d if d in (MIN_TIME, MAX_TIME) else _clamp(t + d)


def _add_arrays(t: int | Ints, d: int | Ints) -> Ints:
    total: Ints = np.add(t, d, dtype=np.int64)
    if total.size == 0 or _sum_is_tame(extremes(t), extremes(d)):
        return total
    t, d = np.asarray(t, np.int64), np.asarray(d, np.int64)
    # Two's complement wrapped where both operands differ in sign from the sum.
    total = np.where((t ^ total) & (d ^ total) < 0, np.where(d < 0, MIN_TIME, MAX_TIME), total)
    total = np.where(is_infinite(d), d, total)
    return np.where(is_infinite(t), t, total)


def _sum_is_tame(t: tuple[int, int], d: tuple[int, int]) -> bool:
    least, most = min(t[0], d[0], t[0] + d[0]), max(t[1], d[1], t[1] + d[1])
    return least > MIN_TIME and most < MAX_TIME


def multiples(k: Any, size: Any) -> Any:
    """Return ``k * size`` for positive sizes, saturated."""
    if not isinstance(k, np.ndarray):
        return _clamp(k * size)
    limit = MAX_TIME // size
    if k.size == 0:
        return k * size
    if not isinstance(limit, np.ndarray):
        low, high = extremes(k)
        if -limit <= low and high <= limit:
            return k * size
    return np.where(k > limit, MAX_TIME, np.where(k < -limit, MIN_TIME, k * size))


def exact_sum(t: Ints, d: int) -> Ints:
    """Return ``t + d`` for times of data, or raise if the sum does not fit.

    `add_time` is for marks and for bounds of a search, which may stop at the ends of time.

    Examples
    --------
    >>> exact_sum(np.array([1, 2]), 7)
    array([8, 9])
    """
    if len(t):
        low, high = extremes(t)
        check_finite(low + d, high + d)
    return np.add(t, np.int64(d)) if MIN_TIME <= d <= MAX_TIME else np.array([x + d for x in t.tolist()], np.int64)


def check_finite(low: int, high: int) -> None:
    """Refuse times of data, from `low` to `high`, at or beyond the ends of 64 bits."""
    if low <= MIN_TIME or high >= MAX_TIME:
        raise time_out_of_range(low if low <= MIN_TIME else high)


def time_out_of_range(time: int | None = None) -> DataError:
    """The error for a time of data that 64 bits of nanoseconds cannot hold."""
    which = "a time" if time is None else f"the time {time} ns"
    return DataError(
        f"{which} lies outside 64 bits of nanoseconds (years 1677 to 2262)",
        hint="use shorter windows, shifts and lifetimes, or leave out rows this near the ends: where(...)",
        inside=True,
    )


def time_apart(later: Ints, earlier: Ints) -> NDArray[np.float64]:
    """Return ``later - earlier`` as floats, also where the difference does not fit 64 bits.

    Examples
    --------
    >>> time_apart(np.array([7, MAX_TIME]), np.array([2, MIN_TIME]))
    array([5.00000000e+00, 1.84467441e+19])
    """
    difference = later - earlier
    wrapped = (later ^ earlier) & (later ^ difference) < 0
    near: NDArray[np.float64] = difference.astype(np.float64)
    return np.where(wrapped, later.astype(np.float64) - earlier, near) if wrapped.any() else near


def step_number(t: Any, step: int, offset: int = 0) -> Any:
    """Return ``floor((t - offset) / step)``, exactly for all times and ``0 <= offset < step``.

    The difference itself may not fit 64 bits; the number always does.

    Examples
    --------
    >>> step_number(17, 10, 2), step_number(np.array([MIN_TIME, 1]), 10, 2).tolist()
    (1, [-922337203685477581, -1])
    """
    return t // step - (t % step < offset)


def extremes(x: int | Ints) -> tuple[int, int]:
    """The least and the most of instants that are not empty; of one they cost next to nothing.

    Examples
    --------
    >>> extremes(np.array([3, 1, 2])), extremes(np.array([5])), extremes(5)
    ((1, 3), (5, 5), (5, 5))
    """
    if not isinstance(x, np.ndarray):
        return int(x), int(x)
    if x.size == 1:
        return x.item(), x.item()
    return int(x.min()), int(x.max())


def is_infinite(t: Ints) -> NDArray[np.bool_]:
    """Which instants lie before or after every other."""
    return np.equal(t, MIN_TIME) | np.equal(t, MAX_TIME)


def _clamp(t: int) -> int:
    return min(max(t, MIN_TIME), MAX_TIME)


def _nanoseconds(what: str, value: Duration, *, rates: bool = False) -> Fraction:
    value = scalar(value)
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
        units = ", ".join([*reversed(_UNITS), "w", *(_HERTZ if rates else ())])
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
