"""Arguments of public functions: keywords that they do not have and values of another kind are refused before anything else sees them."""

from __future__ import annotations

import datetime as dt
import difflib
import functools
import inspect
import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ParamSpec, TypeVar

import numpy as np

from hydrophone.errors import ParameterError, located

__all__ = ["public"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


def public(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A public function: its errors say the user's line, and what it takes where a keyword or the kind of a value is wrong.

    Only kinds are looked at (a number, a text, names), and only of parameters that declare plain ones; whether a value makes
    sense is for the operator to say.

    Examples
    --------
    >>> @public
    ... def welch(size: int, *, hop: int | None = None) -> int: return size
    >>> try:
    ...     welch("big")
    ... except ParameterError as error:
    ...     print(error.message)
    welch: size must be a whole number, got 'big'
    >>> try:
    ...     welch(nperseg=512)
    ... except TypeError as error:
    ...     print(error)
    welch() got an unexpected keyword argument 'nperseg'; it takes: size, hop
      Hint: here it is size
    """
    told = function.__name__.replace("read_", "read.")
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    skipped = "self" in inspect.signature(function).parameters
    kinds = {p.name: _Kinds.of(p) for p in parameters}
    ordered = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    others = next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), None)

    @functools.wraps(function)
    def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        given = args[1:] if skipped else args
        for name, value in zip(ordered, given, strict=False):
            _check(told, name, kinds[name], value)
        if rest is not None:
            for value in given[len(ordered) :]:
                _check(told, rest, kinds[rest], value, several=True)
        for name, value in kwargs.items():
            if name in kinds:
                _check(told, name, kinds[name], value)
            elif others is None:
                raise TypeError(_unexpected(told, name, value, list(kinds)))
            else:
                _check(told, name, kinds[others], value)
        return function(*args, **kwargs)

    return located(checked)


# --- keywords ---------------------------------------------------------------------------------------------------------


def _unexpected(told: str, name: str, value: Any, known: list[str]) -> str:
    weights = name == "window" and not _number(value)  # a length elsewhere, or the name of a taper
    meant = () if weights else OTHER_KEYWORDS.get(name, ())
    ours = [n for n in meant if n in known] or difflib.get_close_matches(name, known, 1)
    hint = f"here it is {ours[0]}" if ours else ADVICE.get(name)
    takes = f"it takes: {', '.join(known)}" if known else "it takes none"
    return f"{told}() got an unexpected keyword argument {name!r}; {takes}" + (f"\n  Hint: {hint}" if hint else "")


OTHER_KEYWORDS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (
            "nperseg",
            "n_fft",
            "nfft",
            "win_length",
            "window_length",
            "window_size",
            "kernel_size",
            "length",
            "width",
            "M",
        ),
        ("size", "window"),
    ),
    **dict.fromkeys(("hop_length", "step", "stride", "slide", "period"), ("hop", "every", "spacing")),
    **dict.fromkeys(("window", "freq", "rule", "interval"), ("size", "spacing", "every")),
    **dict.fromkeys(("fc", "Wn", "freqs", "frequencies", "cut"), ("cutoff", "freq", "frequency", "low")),
    **dict.fromkeys(("lowcut", "freqmin", "l_freq", "fmin"), ("low", "cutoff")),
    **dict.fromkeys(("highcut", "freqmax", "h_freq", "fmax"), ("high", "cutoff")),
    **dict.fromkeys(("N", "corners"), ("order",)),
    **dict.fromkeys(("Q",), ("q",)),
    **dict.fromkeys(("numtaps", "ntaps"), ("taps",)),
    **dict.fromkeys(("q", "factor", "decimation"), ("n", "down")),
    **dict.fromkeys(("how", "agg", "func", "method", "mode"), ("direction", "kind", "how", "function", "rule", "fill")),
    **dict.fromkeys(("type", "agg", "statistic"), ("kind", "how")),
    **dict.fromkeys(("right", "df", "right_df"), ("other",)),
    **dict.fromkeys(("left_on", "right_on", "by", "keys", "left_by", "right_by"), ("on", "key")),
    **dict.fromkeys(("group", "groupby", "partition_by", "id"), ("key", "on", "by")),
    **dict.fromkeys(("timestamp", "ts", "date", "datetime", "time_column", "index", "index_column", "x"), ("time",)),
    **dict.fromkeys(("watermark", "delay", "lateness", "allowed_lateness"), ("progress", "late")),
    **dict.fromkeys(("sep",), ("delimiter",)),
    **dict.fromkeys(("dtype", "dtypes", "schema"), ("types", "dtype")),
    **dict.fromkeys(("na_values", "null_value", "nulls"), ("null_values",)),
    **dict.fromkeys(("date_format", "timestamp_format"), ("time_format",)),
    **dict.fromkeys(("closed", "label"), ("at",)),
    **dict.fromkeys(("origin", "phase", "start"), ("offset",)),
    **dict.fromkeys(("min_periods", "min_samples"), ("missing",)),
    **dict.fromkeys(("wlen",), ("within",)),
    **dict.fromkeys(("limit", "max_gap"), ("tolerance", "within")),
    **dict.fromkeys(("com", "span", "halflife", "smoothing"), ("alpha",)),
    **dict.fromkeys(("zi",), ("initial",)),
    **dict.fromkeys(("nsta",), ("short",)),
    **dict.fromkeys(("nlta",), ("long",)),
    **dict.fromkeys(("coefficients", "kernel", "h", "coef"), ("taps", "sections")),
    **dict.fromkeys(("checkpointLocation", "checkpoint_location"), ("checkpoint",)),
    **dict.fromkeys(("path", "sink", "output"), ("to",)),
    **dict.fromkeys(("mode",), ("overwrite", "how")),
    **dict.fromkeys(("allow_exact_matches",), ("exact",)),
}
"""Keywords of other libraries, and what may be meant by each."""

ADVICE: Mapping[str, str] = {
    "noverlap": "say how far windows are apart instead: hop=size - noverlap",
    **dict.fromkeys(
        ("fs", "sr", "sample_rate", "sampling_rate", "srate"), "the rate is known, it follows from sample(period)"
    ),
    **dict.fromkeys(
        ("axis", "axes", "dim"), "there is no axis to choose: every key, channel and window is handled by itself"
    ),
    "window": 'windows are weighed by a method: window(size).taper("hann")',
    "btype": "lowpass, highpass, bandpass and bandstop are methods",
    "ftype": "other designs are SciPy's: sos(scipy.signal.cheby1(..., output='sos', fs=rate))",
    "output": "filters are second-order sections; iir takes polynomials",
    "padtype": "nothing is made up at the edges: see `filtfilt`",
    "padlen": "nothing is made up at the edges: see `filtfilt`",
    "inplace": "nothing changes in place: every method gives a new handle",
    "center": "results lie at the end of their window; shift(-size // 2) moves samples to its middle",
    "suffixes": "columns of the right side that would clash get _right",
    "parse_dates": "times are read from the column that time= names",
    "engine": "the method that runs a query says where: to_arrow, to_spark, start",
}
"""Keywords of other libraries for which there is no parameter here."""


# --- kinds ------------------------------------------------------------------------------------------------------------


def _number(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and value.dtype.kind in "iuf"
    return isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_ | np.timedelta64)


def _whole(value: Any) -> bool:
    return _number(value) and (isinstance(value, numbers.Integral) or value == value // 1)


def _scalar(value: Any) -> bool:
    return value is None or isinstance(value, numbers.Number)


def _names(value: Any) -> bool:
    # What can be gone through only once would be used up by this very look.
    flat = isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping | Iterator)
    return flat and len(getattr(value, "shape", (0,))) == 1 and _texts(value)


def _texts(values: Iterable[Any]) -> bool:
    return not isinstance(values, np.ndarray) and all(isinstance(v, str) for v in values)


_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "None": ("None", lambda v: v is None),
    "str": ("a text", lambda v: isinstance(v, str)),
    "timedelta": ("a duration", lambda v: isinstance(v, dt.timedelta | np.timedelta64)),
    "bool": ("True or False", lambda v: isinstance(v, bool | np.bool_)),
    "int": ("a whole number", _whole),
    "float": ("a number", _number),
    "complex": ("a number", lambda v: _number(v) or isinstance(v, numbers.Complex)),
    "Sequence[str]": ("a list of names", _names),
    "Mapping[str, str]": (
        "pairs of names",
        lambda v: isinstance(v, Mapping) and _texts(v.keys()) and _texts(v.values()),
    ),
    "tuple[str, str]": ("two of them", lambda v: isinstance(v, tuple) and _texts(v)),
}
_ALIASES = {
    "Extent": "int | str | timedelta",
    "Extent | None": "int | str | timedelta | None",
    "Limit": "int | str | None",
    "Key": "str | Sequence[str]",
    "On": "str | Sequence[str] | Mapping[str, str] | None",
}
_COLUMNS = {
    "key",
    "time",
    "end",
    "sequence",
    "column",
    "columns",
    "on",
    "by",
    "fields",
    "since",
    "until",
    "samples",
    "delimiter",
}
_WORDS = {
    "Extent": "a whole number of samples or a duration",
    "Extent | None": "a whole number of samples, a duration or None",
    "int | str": 'a whole number of bytes or a text such as "256MB"',
    "int | str | None": 'a whole number of bytes, a text such as "256MB" or None',
    "Limit": 'a whole number of bytes, a text such as "256MB" or None',
    "float | str": 'a number of Hz or a text such as "1kHz"',
}


class _Kinds:
    """The kinds of values that a parameter takes."""

    def __init__(self, declared: str) -> None:
        parts = _ALIASES.get(declared, declared).split(" | ")
        words = [_KINDS[part][0] for part in parts]
        self.words = _WORDS.get(declared) or " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))
        self.tests = [_KINDS[part][1] for part in parts]

    @classmethod
    def of(cls, parameter: inspect.Parameter) -> _Kinds | None:
        """Those that a parameter declares; None where they are not all plain."""
        declared = str(parameter.annotation)
        if declared.startswith("Literal["):
            declared = "str | None" if declared.endswith(" | None") else "str"
        plain = all(part in _KINDS for part in _ALIASES.get(declared, declared).split(" | "))
        found = cls(declared) if plain else None
        if found and declared == "str" and isinstance(parameter.default, str) and parameter.name not in _COLUMNS:
            found.tests.append(_scalar)  # one of several texts: the operator names them all
        return found


def _check(told: str, name: str, kinds: _Kinds | None, value: Any, *, several: bool = False) -> None:
    if kinds is None or any(test(value) for test in kinds.tests):
        return
    hint = None
    if several and _names(value):
        hint = f"one after the other: {told}({', '.join(map(repr, value))})"
    elif isinstance(value, int) and name in _COLUMNS:
        hint = 'columns are named by texts; where pandas has numbers, frame.rename(columns=str) makes "0" of 0'
    raise ParameterError(f"{told}: {name} must be {kinds.words}, got {_shown(value)}", hint=hint)


def _shown(value: Any) -> str:
    """A value in an error: large ones by their type."""
    plain = value is None or isinstance(value, str | bytes | numbers.Number | np.generic | list | tuple | dict | set)
    text = repr(value) if plain else ""
    kind = f"{type(value).__module__.partition('.')[0]}.{type(value).__qualname__}".removeprefix("builtins.")
    return text if plain and len(text) <= 80 else f"a value of type {kind}"
