"""Wrong calls that somebody plausibly writes: every one of them ends in an error of ours, or in a TypeError that says what is taken.

A compact fuzz: every public method gets every kind of wrong value for every parameter that declares a plain kind.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import hydrophone as hp
from hydrophone import arguments
from hydrophone.api import foreign
from hydrophone.errors import DataError, HydrophoneError, ParameterError, SignalTypeError

ROWS = pa.table({"k": [1, 1, 2], "t": [0, 10, 20], "v": [1.0, 2.0, 3.0]})


def stream(rows: pa.Table = ROWS) -> hp.Stream:
    return hp.from_arrow(rows, key="k", time="t")


def signal() -> hp.Signal:
    return stream().signal("v")


def uniform() -> hp.UniformSignal:
    return signal().sample(10)


def windowed() -> hp.Windowed:
    return uniform().window(2, hop=1)


MAKE: dict[str, Callable[[], Any]] = {
    "Stream": stream,
    "Signal": signal,
    "UniformSignal": uniform,
    "Windowed": windowed,
}

# --- values of another kind -----------------------------------------------------------------------------------------------

WRONG: dict[str, Any] = {
    "object": object(),
    "array": np.array([1.0, 2.0]),
    "column": hp.col("v"),
    "frame": pd.DataFrame({"x": [1]}),
    "number": 2.5,
    "complex": 1j,
    "bytes": b"x",
    "text": "nonsense",
    "list": [None],
    "pairs": {"a": 1},
    "span": np.timedelta64(20, "ns"),
    "day": np.datetime64("2020"),
    "class": int,
    "none": None,
}
GOOD: dict[str, Any] = {
    **dict.fromkeys(("size", "window", "cells", "plateau"), 3),
    **dict.fromkeys(
        ("hop", "n", "k", "count", "levels", "polyorder", "short", "lag", "before", "after", "by", "rows"), 1
    ),
    **dict.fromkeys(("long", "spacing", "every", "gap", "most", "duration", "within", "tolerance"), 10),
    **{key: [1.0] for key in ("taps", "pattern", "template", "b", "a")},
    **dict.fromkeys(("cutoff", "low", "freq", "frequency"), 1e6),
    **dict.fromkeys(("how", "kind"), "mean"),
    **dict.fromkeys(("column", "value"), "v"),
    **dict.fromkeys(("threshold", "on", "off", "sigmas"), 0.5),
    "high": 2e6,
    "alpha": 0.5,
    "sections": [[1, 0, 0, 1, 0, 0]],
    "weights": [1.0, 1.0],
    "positions": [0],
    "wavelet": "haar",
    "which": "real",
    "number": 0,
    "condition": hp.col("v") > 1,
    "function": np.abs,
    "table": pa.table({"k": [1], "g": [2.0]}),
}
ELSEWHERE = {"plot", "start", "to_spark", "save", "to_csv", "to_parquet"}
"""Methods that need more than a process."""


def methods() -> Iterator[tuple[str, str]]:
    for handle, make in MAKE.items():
        for name, member in inspect.getmembers(type(make()), callable):
            if not name.startswith("_") and name not in ELSEWHERE and not isinstance(member, type):
                yield handle, name


def others_of(handle: str, parameter: inspect.Parameter) -> Any:
    if parameter.name in ("other", "events"):
        return MAKE[handle]() if parameter.name == "other" else stream()
    return GOOD.get(parameter.name)


@pytest.mark.parametrize(("handle", "name"), list(methods()))
def test_values_of_another_kind_are_refused(handle: str, name: str) -> None:
    query = MAKE[handle]()
    method = getattr(query, name)
    parameters = list(inspect.signature(method).parameters.values())
    needed = {
        p.name: others_of(handle, p)
        for p in parameters
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    }
    raw: list[str] = []
    for p in parameters:
        if p.kind in (p.VAR_KEYWORD,):
            continue
        for what, value in WRONG.items():
            try:
                if p.kind is p.VAR_POSITIONAL:
                    method(*needed.values(), value)
                else:
                    method(**{**needed, p.name: value})
            except HydrophoneError:
                pass
            except TypeError as error:
                if "argument" not in str(error) or f"{name}()" not in str(error):
                    raw.append(f"{p.name}={what}: {error!r}")
            except Exception as error:
                raw.append(f"{p.name}={what}: {error!r}")
    assert not raw, raw[:5]


@pytest.mark.parametrize(
    ("does", "says"),
    [
        (lambda: uniform().ema("fast"), "ema: alpha must be a number, got 'fast'"),
        (lambda: uniform().above(None), "above: threshold must be a number, got None"),  # type: ignore[arg-type]
        (lambda: uniform().savgol(3, 1.5), "savgol: polyorder must be a whole number, got 1.5"),  # type: ignore[arg-type]
        (
            lambda: stream().join(stream(), on=3),
            "join: on must be a text, a list of names, pairs of names or None, got 3",
        ),  # type: ignore[arg-type]
        (lambda: stream().batches("all"), "batches: rows must be a whole number, got 'all'"),  # type: ignore[arg-type]
        (lambda: stream().select(hp.col("v")), "select: columns must be a text, got a value of type narwhals.Expr"),  # type: ignore[arg-type]
        (lambda: stream().select(["v", "w"]), "Hint: one after the other: select('v', 'w')"),  # type: ignore[arg-type]
        (lambda: uniform().events(column=["v"]), "events: column must be a text, got ['v']"),  # type: ignore[arg-type]
        (lambda: uniform().bandpass("3MHz", 2e6), "bandpass: low must be below high"),
        (lambda: uniform().bandpass(1e6, 1e99), "bandpass: high must be above 0 and below half the rate"),
    ],
)
def test_what_is_wrong_is_named(does: Callable[[], Any], says: str) -> None:
    with pytest.raises(HydrophoneError, match=re.escape(says)) as caught:
        does()
    assert caught.value.where is not None and caught.value.where.startswith("test_plausible_mistakes.py:")


# --- keywords and names of other libraries --------------------------------------------------------------------------------


@pytest.mark.parametrize(("handle", "name"), list(methods()))
def test_unknown_keywords_name_the_known_ones(handle: str, name: str) -> None:
    method = getattr(MAKE[handle](), name)
    parameters = inspect.signature(method).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return  # its keywords are names of columns
    with pytest.raises(TypeError, match=rf"^{name}\(\) got an unexpected keyword argument 'bogus'; it takes") as caught:
        method(bogus=1)
    assert all(p in str(caught.value) for p in parameters)


@pytest.mark.parametrize(
    ("does", "hint"),
    [
        (lambda: uniform().welch(nperseg=256), "here it is size"),  # type: ignore[call-arg]
        (lambda: uniform().welch(256, noverlap=128), "hop=size - noverlap"),  # type: ignore[call-arg]
        (lambda: uniform().stft(256, fs=100), "the rate is known"),  # type: ignore[call-arg]
        (lambda: uniform().window(8, window="hann"), 'window(size).taper("hann")'),  # type: ignore[call-arg]
        (lambda: uniform().moving_mean(window=8), "here it is size"),  # type: ignore[call-arg]
        (lambda: windowed().mean(axis=1), "there is no axis to choose"),  # type: ignore[call-arg]
        (lambda: uniform().decimate(q=2), "here it is n"),  # type: ignore[call-arg]
        (lambda: uniform().lowpass(Wn=10), "here it is cutoff"),  # type: ignore[call-arg]
        (lambda: uniform().lowpass(10, btype="low"), "are methods"),  # type: ignore[call-arg]
        (lambda: uniform().lowpass(10, odrer=3), "here it is order"),  # type: ignore[call-arg]
        (lambda: stream().asof_join(stream(), how="left"), "here it is direction"),  # type: ignore[call-arg]
        (lambda: stream().join(stream(), left_on="k"), "here it is on"),  # type: ignore[call-arg]
        (lambda: hp.read.csv("x.csv", time="t", sep=";"), "here it is delimiter"),  # type: ignore[call-arg]
        (lambda: hp.read.parquet("x", timestamp="t"), "here it is time"),  # type: ignore[call-arg]
        (lambda: hp.from_arrow(ROWS, time="t", groupby="k"), "here it is key"),  # type: ignore[call-arg]
        (lambda: hp.linear(limit="1s"), "it takes: max_gap"),  # type: ignore[call-arg]
    ],
)
def test_keywords_of_other_libraries_are_known(does: Callable[[], Any], hint: str) -> None:
    with pytest.raises(TypeError, match=re.escape(hint)):
        does()


def test_hints_for_keywords_name_real_parameters() -> None:
    found = {p for handle, name in methods() for p in inspect.signature(getattr(MAKE[handle](), name)).parameters}
    found |= {p for f in (hp.read.csv, hp.from_arrow) for p in inspect.signature(f).parameters}
    found |= set(inspect.signature(hp.Stream.start).parameters) | set(
        inspect.signature(hp.Stream.to_parquet).parameters
    )
    assert {ours for names in arguments.OTHER_KEYWORDS.values() for ours in names} <= found


@pytest.mark.parametrize("handle", MAKE)
@pytest.mark.parametrize("name", foreign.NAMES)
def test_names_of_other_libraries_are_known(handle: str, name: str) -> None:
    query = MAKE[handle]()
    if hasattr(type(query), name):
        return
    with pytest.raises(AttributeError, match=rf"^a {handle} has no '{name}': write ") as caught:
        getattr(query, name)
    assert hasattr(type(query), str(caught.value).partition("write ")[2].partition("(")[0])


@pytest.mark.parametrize("name", foreign.STREAM)
def test_names_that_mean_something_else_to_streams(name: str) -> None:
    for query in (stream(), signal()):
        with pytest.raises(AttributeError, match=rf"has no '{name}': write ") as caught:
            getattr(query, name)
        assert hasattr(type(query), str(caught.value).partition("write ")[2].partition("(")[0])


def test_the_package_and_its_readers_know_names_of_others() -> None:
    for name, instead in {**foreign.FUNCTIONS, **foreign.FORMATS}.items():
        place: Any = hp.read if name in foreign.FORMATS else hp
        with pytest.raises(AttributeError, match=re.escape(f"has no {name!r}: write {instead}")):
            getattr(place, name)
        ours: Any = hp
        for part in instead.removeprefix("hp.").partition("(")[0].split("."):
            ours = getattr(ours, part)
        assert callable(ours)
    with pytest.raises(
        AttributeError, match=r"^hydrophone has no 'butter': it is a method of queries, write x\.lowpass"
    ):
        _ = hp.butter  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"it has: .*parquet"):
        _ = hp.read.nonsense  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"^module 'hydrophone' has no attribute 'nonsense'"):
        _ = hp.nonsense  # type: ignore[attr-defined]


# --- columns of unusual types ---------------------------------------------------------------------------------------------

COLUMNS: dict[str, pa.Array] = {
    "duration": pa.array([1, 2, None], pa.duration("ms")),
    "decimal": pa.array([decimal.Decimal(1), None, decimal.Decimal(2)], pa.decimal128(10, 2)),
    "date": pa.array([dt.date(2020, 1, 1)] * 3),
    "time": pa.array([dt.time(1)] * 3),
    "nulls": pa.nulls(3),
    "half": pa.array([1.0, -0.0, 0.0]).cast(pa.float16()),
    "binary": pa.array([b"x", None, b"y"]),
    "list": pa.array([[1, 2], [3], None]),
    "struct": pa.array([{"a": 1}] * 3),
    "complex": pa.array([{"re": 1.0, "im": 2.0}] * 3),
    "dictionary": pa.array(["a", "b", "a"]).dictionary_encode(),
    "bool": pa.array([True, None, False]),
    "text": pa.array(["a", "b", None], pa.string_view()),
    "months": pa.array([pa.MonthDayNano([1, 2, 3])] * 3, pa.month_day_nano_interval()),
    "runs": pa.RunEndEncodedArray.from_arrays([3], pa.array([1.0])),
}
USES: dict[str, Callable[[pa.Table], Any]] = {
    "run": lambda t: stream(t).to_arrow(),
    "sort": lambda t: stream(t).sort().to_arrow(),
    "distinct": lambda t: stream(t).distinct().to_arrow(),
    "join": lambda t: stream(t).join(stream(t)).to_arrow(),
    "equal": lambda t: stream(t).where(hp.col("v") == hp.col("v")).to_arrow(),
    "signal": lambda t: stream(t).signal("v").sample(10).to_arrow(),
    "key": lambda t: hp.from_arrow(t, key="v", time="t").tumble(10).agg(n=hp.count()).to_arrow(),
    "time": lambda t: hp.from_arrow(t, key="k", time="v").to_arrow(),
    "mean": lambda t: stream(t).tumble(10).agg(m=hp.mean("v")).to_arrow(),
    "max": lambda t: stream(t).tumble(10).agg(m=hp.max("v")).to_arrow(),
    "first": lambda t: stream(t).tumble(10).agg(m=hp.first("v")).to_arrow(),
    "distinct_count": lambda t: stream(t).tumble(10).agg(m=hp.distinct_count("v")).to_arrow(),
    "top_k": lambda t: stream(t).top_k(1, by="v", size=10).to_arrow(),
    "pairs": lambda t: stream(t).pairs().to_arrow(),
    "explain": lambda t: stream(t).sort().explain("spark"),
}


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("use", USES)
def test_columns_of_any_type_work_or_are_refused(kind: str, use: str) -> None:
    for rows in (3, 0):
        table = pa.table({"k": [1, 1, 2], "t": [0, 10, 20], "v": COLUMNS[kind]}).slice(0, rows)
        try:
            USES[use](table)
        except HydrophoneError:
            assert use != "run" or kind in ("months", "runs")


def test_intervals_of_months_are_refused_when_the_query_is_built() -> None:
    months = COLUMNS["months"]
    for column in (
        months,
        pa.StructArray.from_arrays([months], ["a"]),
        pa.array([[None]], pa.list_(months.type)).take([0, 0, 0]),
    ):
        with pytest.raises(
            SignalTypeError, match=r"column 'v' is .*neither Parquet nor Spark can hold(.|\n)*Hint: how long a month is"
        ):
            stream(pa.table({"k": [1, 1, 2], "t": [0, 10, 20], "v": column}))
    durations = stream(pa.table({"k": [1, 1, 2], "t": [0, 10, 20], "v": COLUMNS["duration"]}))
    assert durations.sort().to_arrow()["v"].type == pa.duration("ms")


def test_halves_and_zeros_are_counted_once() -> None:
    table = pa.table({"k": [1, 1, 1], "t": [0, 1, 2], "v": COLUMNS["half"]})
    assert stream(table).tumble(10).agg(n=hp.distinct_count("v")).to_arrow()["n"].to_pylist() == [2]
    assert stream(table).top_k(1, by="v", size=10).to_arrow()["t"].to_pylist() == [0]


# --- frames, keys and grids -----------------------------------------------------------------------------------------------


def test_columns_are_named_by_texts() -> None:
    frame = pd.DataFrame({0: [1, 2], 1: [0, 10], "v": [1.0, 2.0]})
    with pytest.raises(ParameterError, match=r"from_pandas: time must be a text, got 1(.|\n)*rename\(columns=str\)"):
        hp.from_pandas(frame, time=1)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"from_pandas: columns are named by texts in Arrow, .* column 0"):
        hp.from_pandas(frame, time="1")
    with pytest.raises(ParameterError, match="lookup: columns are named by texts in Arrow"):
        stream().lookup(frame, on="k")
    with pytest.raises(ParameterError, match=r"lookup: Arrow cannot hold this frame: .*a"):
        stream().lookup(pd.DataFrame({"k": [1, 2], "a": [1, "x"]}), on="k")
    renamed = hp.from_pandas(frame.rename(columns=str), key="0", time="1")
    assert renamed.to_arrow().column_names == ["0", "1", "v"]


def test_no_key_is_not_shown_as_an_empty_one() -> None:
    twice = pa.table({"t": [0, 0], "v": [1.0, 2.0]})
    with pytest.raises(DataError, match="two events overlap at"):
        hp.from_arrow(twice, time="t").signal("v").to_arrow()
    pieces = pa.table({"t": [0, 10], "values": [[1.0, 2.0], [3.0]]})
    with pytest.raises(DataError, match="two segments overlap at"):
        hp.from_segments(pieces, time="t", period=10).fir([1.0]).to_arrow()


def test_a_segment_off_the_grid_says_the_offset() -> None:
    pieces = pa.table({"t": [1_000_000_003], "values": [[1.0, 2.0]]})
    with pytest.raises(
        DataError, match=r"1000000003 ns, which is not on the grid of every 10ns(.|\n)*offset=3 puts it there"
    ):
        hp.from_segments(pieces, time="t", period=10).to_arrow()
    assert hp.from_segments(pieces, time="t", period=10, offset=3).to_arrow()["value"].to_pylist() == [1.0, 2.0]


def test_hints_name_methods_that_are_there() -> None:
    pieces = pa.table({"k": [1, 2], "t": [0, 0], "values": [[1.0], [2.0]], "period": [10.0, 20.0]})
    own = hp.from_segments(pieces, key="k", time="t")
    for does in (
        lambda: own.lowpass(10),
        lambda: own.goertzel(10, 4),
        lambda: own.continuous(),
        lambda: own.differentiate(),
    ):
        with pytest.raises(HydrophoneError) as caught:
            does()
        assert "resample(period, fill=hp.linear())" in (caught.value.hint or "")
    assert own.resample(10, fill=hp.linear()).continuous().to_arrow().num_rows == 2


# --- the same for what is no method of a stream --------------------------------------------------------------------------------

BESIDE: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "shed.fixed": (hp.shed.fixed, {"factor": 0.5, "strategy": "global"}),
    "shed.adaptive": (hp.shed.adaptive, {"target": "5ms", "most": 0.5, "strategy": "global"}),
    "shed.pinned": (hp.shed.pinned, {"changes": [(0, 0.5)]}),
    "GraphThread": (hp.GraphThread, {"strategy": "chain"}),
    "Hybrid": (hp.Hybrid, {"before": [], "threads": 2}),
    "OperatorThreads": (hp.OperatorThreads, {"buffer": 1000}),
}
"""Functions and classes of graphs, and arguments that are right."""


@pytest.mark.parametrize("name", BESIDE)
def test_values_of_another_kind_are_refused_beside_streams_too(name: str) -> None:
    make, right = BESIDE[name]
    make(**right)
    for parameter in right:
        for value in (*WRONG.values(), float("nan"), float("inf"), -1, 10**30, True, "", [(0.5, 0.5)], [(0, "x")], [3]):
            with contextlib.suppress(HydrophoneError):
                make(**{**right, parameter: value})


def test_a_row_number_is_not_rounded() -> None:
    with pytest.raises(ParameterError, match=r"shed.pinned: a row number must be a whole number, got 0.5"):
        hp.shed.pinned([(0.5, 0.5)])  # type: ignore[list-item]


def test_a_wait_for_ever_may_be_said_in_seconds() -> None:
    with hp.Graph(scheduler=hp.OperatorThreads()) as graph:
        graph.flush(timeout=float("inf"))
        graph.flush(timeout=1e30)
