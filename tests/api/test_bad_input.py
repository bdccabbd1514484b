"""What a user can get wrong: the class of the error, what it says, the line it points at, and what to write instead."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hydrophone as hp
from hydrophone.compiler.compile import lower
from hydrophone.engine.pipeline import Pipeline
from hydrophone.errors import DataError, HydrophoneError, ParameterError, PlanError, SignalTypeError, StateVersionError
from hydrophone.model.batch import Progress
from hydrophone.model.time import FIRST_DATE, LAST_DATE, MIN_TIME, instant

HERE = "test_bad_input.py:"


def source(**columns: Any) -> hp.Stream:
    table = pa.table({"k": ["a", "a", "b"], "t": [0, 10, 20], "v": [1.0, 2.0, 3.0], **columns})
    return hp.from_arrow(table, key="k", time="t")


def lived(start: list[int], end: list[int]) -> hp.Stream:
    n = len(start)
    return hp.from_arrow(pa.table({"k": ["a"] * n, "t": start, "e": end, "v": [1.0] * n}), key="k", time="t", end="e")


def signal() -> hp.UniformSignal:
    return source().signal("v").sample(10)


def vectors() -> hp.UniformSignal:
    return source(w=[1.0, 2.0, 3.0]).signal("v", "w").sample(10)


def refused(
    kind: type[HydrophoneError], does: Callable[[], Any], *says: str, line: bool = True, hint: bool = True
) -> None:
    """The call raises exactly this class, and its text has everything that a user needs."""
    with pytest.raises(kind) as caught:
        does()
    error = caught.value
    assert type(error) is kind
    for part in says:
        assert part in str(error), f"{part!r} is not in: {error}"
    if line:
        assert error.where is not None and error.where.startswith(HERE), f"no line of the user's: {error}"
        assert re.search(r"\n  at test_bad_input\.py:\d+", str(error))
    if hint:
        assert error.hint, f"no hint: {error}"


# --- the query is wrong: refused while it is built -------------------------------------------------------------------------------

BUILT: list[tuple[str, type[HydrophoneError], Callable[[], Any], tuple[str, ...]]] = [
    (
        "unknown-value",
        ParameterError,
        lambda: source().signal("speed"),
        ("signal: no column 'speed'", "this stream has: v"),
    ),
    ("unknown-select", ParameterError, lambda: source().select("x"), ("select: no column 'x'", "this stream has: v")),
    (
        "unknown-key-by",
        ParameterError,
        lambda: source().key_by("x"),
        ("key_by: no column 'x'", "this stream has: k, v"),
    ),
    (
        "unknown-aggregate",
        ParameterError,
        lambda: source().tumble(5).agg(n=hp.sum("x")),
        ("sum: no column 'x'", "this stream has: v"),
    ),
    (
        "unknown-key",
        ParameterError,
        lambda: hp.from_arrow(pa.table({"t": [1]}), key="k", time="t"),
        ("no column 'k'", "the data has: t"),
    ),
    (
        "unknown-time",
        ParameterError,
        lambda: hp.from_arrow(pa.table({"t": [1]}), time="ts"),
        ("no column 'ts'", "the data has: t"),
    ),
    (
        "named-twice",
        ParameterError,
        lambda: hp.from_arrow(pa.table({"t": [1]}), key="t", time="t"),
        ("named twice", "t, t"),
    ),
    ("no-value", ParameterError, lambda: source().signal(), ("signal: name at least one column",)),
    (
        "ties",
        ParameterError,
        lambda: source().signal("v", ties="any"),
        ("ties must be one of error, first, last", "'any'"),
    ),
    ("size", ParameterError, lambda: signal().window(0), ("window: size must be at least 1 sample, got 0",)),
    ("size-negative", ParameterError, lambda: signal().window(-4), ("window: size must be at least 1 sample, got -4",)),
    ("no-taps", ParameterError, lambda: signal().fir([]), ("fir: taps must be a sequence of at least one number",)),
    ("taps-nan", ParameterError, lambda: signal().fir([1.0, float("nan")]), ("fir: taps must be finite, got nan",)),
    ("sos-shape", ParameterError, lambda: signal().sos([[1.0, 0.0]]), ("sos: expected rows of six", "(1, 2)")),
    ("sos-flat", ParameterError, lambda: signal().sos([1.0, 0.0]), ("sos: expected rows of six",)),
    (
        "sos-unstable",
        ParameterError,
        lambda: signal().sos([[1, 0, 0, 1, -1.5, 0]]),
        ("sos: the filter is unstable", "1.5"),
    ),
    ("sos-a0", ParameterError, lambda: signal().sos([[1, 0, 0, 2, 0, 0]]), ("every a0 must be 1",)),
    ("threshold", ParameterError, lambda: signal().above(float("nan")), ("above: the threshold is not a number",)),
    ("report", ParameterError, lambda: signal().above(1, report=0), ("above: report must be positive, got 0",)),
    (
        "tumble-zero",
        ParameterError,
        lambda: source().tumble(0).agg(n=hp.count()),
        ("tumble: size must be positive, got 0",),
    ),
    ("tumble-name", ParameterError, lambda: source().tumble(5).agg(k=hp.count()), ("tumble: the name 'k' is taken",)),
    (
        "band",
        ParameterError,
        lambda: source().band_join(source(), before=-5, after=2),
        ("band_join: the band from 5 to 2 ns is empty",),
    ),
    ("channel", ParameterError, lambda: vectors().channel(2), ("channel: no channel 2", "has 2")),
    ("scalar", ParameterError, lambda: signal() * "loud", ("'*': expected a signal or a number, got str",)),
    ("scalar-too-large", ParameterError, lambda: small() + 300, ("'+': 300 does not fit", "uint8")),
    ("events-name", ParameterError, lambda: signal().events("t"), ("events: the name 't' is taken",)),
    ("key-by-clash", ParameterError, lambda: source(s=["x", "y", "z"]).key_by(t="s"), ("key_by: the names t clash",)),
    ("where-number", ParameterError, lambda: source().where(hp.col("v") + 1), ("where: the condition is double",)),
    (
        "with-columns-key",
        ParameterError,
        lambda: source().with_columns(k=hp.lit(1)),
        ("with_columns: 'k' is the key or time",),
    ),
    ("tumble-of-key-end", ParameterError, lambda: ended().tumble(5).agg(n=hp.count()), ("'end'", "key")),
    ("above-of-key-end", ParameterError, lambda: ended().signal("v").sample(10).above(1), ("'end'", "key")),
    ("value-text", SignalTypeError, lambda: source(s=["x", "y", "z"]).signal("s"), ("signal: column 's' is string",)),
    (
        "sum-text",
        SignalTypeError,
        lambda: source(s=["x", "y", "z"]).tumble(5).agg(n=hp.sum("s")),
        ("sum: column 's' is string",),
    ),
    ("float-key", SignalTypeError, lambda: source().key_by("v"), ("key column 'v' is double",)),
    (
        "float-key-source",
        SignalTypeError,
        lambda: hp.from_arrow(pa.table({"k": [1.5], "t": [1]}), key="k", time="t"),
        ("key column 'k' is double",),
    ),
    (
        "text-time",
        SignalTypeError,
        lambda: hp.from_arrow(pa.table({"t": ["now"]}), time="t"),
        ("time column 't' is string",),
    ),
    (
        "float-time",
        SignalTypeError,
        lambda: hp.from_arrow(pa.table({"t": [1.5]}), time="t"),
        ("time column 't' is double",),
    ),
    (
        "csd-vectors",
        SignalTypeError,
        lambda: vectors().csd(vectors(), 4, average=2),
        ("csd: these windows have 2 channels", "channel(0)"),
    ),
    ("above-vectors", SignalTypeError, lambda: vectors().above(1), ("has no order",)),
    ("rfft-complex", SignalTypeError, lambda: signal().window(4).fft().rfft(), ("rfft: the windows are complex",)),
    ("irfft-alone", SignalTypeError, lambda: signal().window(4).irfft(), ("irfft: expected 3 values",)),
    (
        "grids",
        SignalTypeError,
        lambda: signal() + segments(),
        ("'+': the signals lie on different grids",),
    ),
    (
        "keys",
        SignalTypeError,
        lambda: signal() + source().key_by().signal("v").sample(10),
        ("'+': the signals have different keys",),
    ),
    (
        "join-keys",
        SignalTypeError,
        lambda: source().band_join(source().key_by(), before=0, after=1),
        ("band_join: the keys differ",),
    ),
    ("periods", PlanError, lambda: segments().window(4, missing="zero"), ('window: missing="zero" needs one period',)),
    ("map-raises", DataError, lambda: signal().window(4).map(fails), ("map: fails raised ZeroDivisionError",)),
    (
        "map-shape",
        DataError,
        lambda: signal().window(4).map(flattens),
        ("map: flattens turned an array of shape (2, 4) into (8,)",),
    ),
]

WITHOUT_HINT = set(
    [
        "unknown-value",
        "unknown-select",
        "unknown-key-by",
        "unknown-aggregate",
        "unknown-key",
        "unknown-time",
        "named-twice",
        "no-value",
        "ties",
        "size",
        "size-negative",
        "taps-nan",
        "sos-unstable",
        "sos-a0",
        "threshold",
        "report",
        "tumble-zero",
        "tumble-name",
        "channel",
        "scalar",
        "key-by-clash",
        "sum-text",
    ]
)
"""The message itself says what is right: it lists the choices, or names the rule."""


def small() -> hp.UniformSignal:
    return source(u=pa.array([1, 2, 3], pa.uint8())).signal("u").sample(10)


def ended() -> hp.Stream:
    return hp.from_arrow(pa.table({"end": ["a"], "t": [0], "v": [1.0]}), key="end", time="t")


def segments(**columns: Any) -> hp.UniformSignal:
    table = {"k": ["a", "a"], "t": [0, 20], "values": [[1.0, 2.0], [3.0]], "period": [10.0, 10.0], **columns}
    return hp.from_segments(pa.table(table), key="k", time="t")


def fails(windows: np.ndarray) -> np.ndarray:
    return windows / (1 // 0)


def flattens(windows: np.ndarray) -> np.ndarray:
    return windows.ravel()


@pytest.mark.parametrize(("name", "kind", "does", "says"), BUILT, ids=[b[0] for b in BUILT])
def test_a_wrong_query_is_refused_when_it_is_built(name: str, kind: Any, does: Any, says: tuple[str, ...]) -> None:
    refused(kind, does, *says, hint=name not in WITHOUT_HINT)


@pytest.mark.parametrize(
    ("kind", "does", "says"),
    [
        (ParameterError, lambda: source().signal("v").sample("0ms"), "period"),
        (ParameterError, lambda: source().signal("v").sample("-5ms"), "period"),
        (ParameterError, lambda: source().signal("v").sample("5 parsecs"), "cannot read '5 parsecs'"),
        (ParameterError, lambda: hp.linear(max_gap=0), "max_gap must be positive, got 0"),
        (ParameterError, lambda: hp.hold(max_gap="-1s"), "max_gap must be positive, got '-1s'"),
        (ParameterError, lambda: hp.delayed("-1s"), "delay must not be negative"),
        (ParameterError, lambda: hp.ordered(idle="0s"), "idle must be positive"),
        (ParameterError, lambda: signal().fir([1.0], missing="skip"), "'zero', 'drop', 'reset', got 'skip'"),
        (ParameterError, lambda: signal().window(4, missing="reset"), "'drop', 'zero', got 'reset'"),
        (ParameterError, lambda: signal().window("25ns"), "'25ns' is not a whole number of samples"),
        (SignalTypeError, lambda: segments().window("20ns"), "size must be in samples"),
        (ParameterError, lambda: signal().to_arrow("columns"), "shape must be 'rows' or 'segments', got 'columns'"),
        (ParameterError, lambda: source().to_arrow("segments"), "only a uniform signal leaves as segments"),
        (ParameterError, lambda: next(iter(source().batches(0))), "rows must be at least 1, got 0"),
        (ParameterError, lambda: source().explain("later"), "no stage 'later'; there are: logical"),
    ],
)
def test_a_wrong_word_or_number_is_named(kind: Any, does: Any, says: str) -> None:
    """These are refused before there is an operator; the traceback ends at the user's line anyway."""
    refused(kind, does, says, line=False, hint=False)


def test_a_hop_of_zero_has_the_message_of_the_guide() -> None:
    refused(
        ParameterError,
        lambda: signal().window(4, hop=0),
        "window: hop must be at least 1 sample, got 0",
        "Hint: hop=size makes",
    )


# --- the data are wrong: refused when the query runs ------------------------------------------------------------------------------


def test_overlap_in_a_signal_names_key_and_time() -> None:
    query = lived([0, 5], [10, 15]).signal("v").sample(10)
    refused(DataError, query.to_arrow, "signal: two events of key {'k': 'a'} overlap", "1970-01-01")


def test_overlap_is_found_across_batches() -> None:
    table = pa.table({"k": ["a", "a"], "t": [0, 5], "e": [10, 15], "v": [1.0, 2.0]})
    query = hp.from_arrow(table, key="k", time="t", end="e", progress=hp.ordered()).signal("v").sample(10)
    refused(DataError, lambda: list(query.batches(1)), "two events of key {'k': 'a'} overlap")


def test_equal_times_are_an_error_unless_one_is_chosen() -> None:
    stream = source(t=[5, 5, 5])
    refused(DataError, stream.signal("v").sample(5).to_arrow, "two events of key {'k': 'a'} overlap", 'ties="first"')
    assert stream.signal("v", ties="first").sample(5).to_arrow()["value"].to_pylist() == [1.0, 3.0]
    assert stream.signal("v", ties="last").sample(5).to_arrow()["value"].to_pylist() == [2.0, 3.0]


def test_chosen_ties_may_still_overlap_what_follows() -> None:
    query = lived([0, 0, 7], [5, 9, 12]).signal("v", ties="last").sample(1)
    refused(DataError, query.to_arrow, "overlap")


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"t": pa.array([0, None, 5])}, "1 rows have no time in 't'"),
        ({"k": pa.array(["a", None, "b"])}, "key: 1 rows have no key"),
        ({"t": pa.array([0, 1, 2**62], pa.timestamp("s"))}, "do not fit into nanoseconds"),
        ({"t": pa.array([0, 1, LAST_DATE])}, "do not fit into nanoseconds"),
        ({"t": pa.array([0, 1, MIN_TIME + 1])}, "do not fit into nanoseconds"),
    ],
)
def test_rows_that_cannot_be_used(columns: dict[str, Any], says: str) -> None:
    refused(DataError, source(**columns).to_arrow, says, line=False, hint=False)


def test_events_lie_within_the_years_that_windows_and_shifts_fit_around() -> None:
    assert instant("1682-01-01") == FIRST_DATE and instant("2258-01-01") == LAST_DATE
    refused(DataError, lived([0], [LAST_DATE]).to_arrow, "times in 'e' do not fit", line=False)
    edge = lived([FIRST_DATE, LAST_DATE - 2], [FIRST_DATE + 1, LAST_DATE - 1])
    for days in (1, 365):
        counted = edge.tumble(f"{days}d").agg(n=hp.count()).to_arrow().sort_by("t")
        found = np.asarray(counted["t"].to_pylist())
        assert (
            counted["n"].to_pylist() == [1, 1]
            and (np.abs(found - [FIRST_DATE, LAST_DATE]) <= days * 86_400 * 10**9).all()
        )
    assert edge.shift("1000d").to_arrow()["t"].to_pylist() == [
        t + 1000 * 86_400 * 10**9 for t in (FIRST_DATE, LAST_DATE - 2)
    ]


@pytest.mark.parametrize("name", ["k", "t", "v", "unused"])
def test_columns_of_one_name_are_refused(name: str) -> None:
    table = pa.table([["a"], [0], [1.0], [2.0], [3.0]], names=["k", "t", "v", "unused", name])
    refused(ParameterError, lambda: hp.from_arrow(table, key="k", time="t"), f"2 columns {name!r}")


@pytest.mark.parametrize(
    ("name", "run"),
    [
        ("value", lambda x: x.to_arrow()),
        ("value", lambda x: list(x.batches())),
        ("values", lambda x: x.window(2).to_arrow()),
        ("period", lambda x: x.to_arrow("segments")),
    ],
)
@pytest.mark.parametrize("role", ["k", "t"])
def test_a_key_or_time_that_is_called_what_samples_are_called(name: str, run: Callable[[Any], Any], role: str) -> None:
    table = pa.table({"k": [1, 1], "t": [0, 10], "v": [1.0, 2.0]})
    table = table.rename_columns([name if n == role else n for n in table.column_names])
    key, time = (name if role == n else n for n in ("k", "t"))
    x = hp.from_arrow(table, key=key, time=time, progress=hp.ordered()).signal("v").sample(10)
    refused(ParameterError, lambda: run(x), f"two columns {name!r}")
    assert len(x.events("sample").to_arrow()) == 2


def test_a_key_that_turns_out_null() -> None:
    refused(DataError, source(s=pa.array(["x", None, "y"])).key_by("s").to_arrow, "key: 1 rows have no key")


def test_a_lifetime_must_not_be_empty() -> None:
    refused(DataError, lived([0, 10], [5, 10]).to_arrow, "1 events end at or before their start", "'t': 10", line=False)


def test_null_values_are_no_readings_and_nan_is_one() -> None:
    stream = source(k=["a"] * 3, v=pa.array([1.0, None, float("nan")]))
    values = stream.signal("v").sample(10, fill=hp.hold(5)).to_arrow()["value"].to_numpy()
    assert values[0] == 1.0 and np.isnan(values[1]) and len(values) == 2


def test_empty_input_has_the_columns_of_the_answer() -> None:
    empty = source().node.data.table.slice(0, 0)  # type: ignore[attr-defined]
    stream = hp.from_arrow(empty, key="k", time="t")
    x = stream.signal("v").sample(10)
    for query in (stream, x, x.window(4).rfft(), x.above(1), stream.tumble(5).agg(n=hp.count())):
        assert len(query.to_arrow()) == 0
        assert query.to_arrow().schema.names[:2] == ["k", "t"]


def only_at_first(windows: np.ndarray) -> np.ndarray:
    """Behaves when it is tried on zeros."""
    if windows.any():
        raise ValueError("too loud")
    return windows


def sometimes_shorter(windows: np.ndarray) -> np.ndarray:
    return windows[:, :1] if windows.any() else windows


def sometimes_complex(windows: np.ndarray) -> np.ndarray:
    return windows * 1j if windows.any() else windows


def test_a_function_that_fails_on_real_data() -> None:
    loud = source(k=["a"] * 3).signal("v").sample(10).window(1)
    refused(DataError, loud.map(only_at_first).to_arrow, "map: only_at_first raised ValueError: too loud")
    refused(DataError, loud.map(sometimes_complex).to_arrow, "map: sometimes_complex gave complex128, and float64")
    longer = source(k=["a"] * 3).signal("v").sample(10).window(2, hop=1)
    refused(
        DataError,
        longer.map(sometimes_shorter).to_arrow,
        "map: sometimes_shorter gave windows of 1 values",
        "2 when it was tried",
    )


def test_segments_of_one_key_share_a_grid() -> None:
    refused(DataError, segments(t=[0, 23]).fir([1.0]).to_arrow, "grid", line=False)
    refused(DataError, segments(period=[10.0, 5.0]).fir([1.0]).to_arrow, "different grids", line=False)
    refused(DataError, segments(period=[10.0, 0.0]).fir([1.0]).to_arrow, "is not positive", line=False)
    refused(DataError, segments(t=[0, 10]).fir([1.0]).to_arrow, "two segments of key {'k': 'a'} overlap")
    refused(DataError, segments(values=pa.array([[1.0, None], [2.0]])).fir([1.0]).to_arrow, "null", line=False)


def test_a_key_that_changes_its_grid_is_found_across_batches() -> None:
    table = pa.table({"k": ["a", "a"], "t": [0, 23], "values": [[1.0, 2.0], [3.0]], "period": [10.0, 10.0]})
    query = hp.from_segments(table, key="k", time="t", progress=hp.ordered()).fir([1.0, 1.0])
    refused(DataError, lambda: list(query.batches(1)), "different grids")


def test_signals_with_periods_of_their_own_must_agree() -> None:
    refused(DataError, (segments() + segments(period=[5.0, 5.0])).to_arrow, "different grids")


# --- state that belongs elsewhere -------------------------------------------------------------------------------------------------


def running(query: Any) -> Pipeline:
    plan = lower([query.node])
    pipeline = Pipeline(plan.roots)
    pipeline.rows(0, plan.sources[0].data.table)  # type: ignore[attr-defined]
    pipeline.advance([Progress(15)])
    return pipeline


def kept(pipeline: Pipeline) -> dict[str, bytes]:
    return {path: block for path, block in pipeline.snapshot().items() if block is not None}


def test_state_of_another_query_is_refused() -> None:
    state = kept(running(signal().fir([1.0, 2.0])))
    other = Pipeline(lower([signal().fir([1.0, 3.0]).node]).roots)
    refused(StateVersionError, lambda: other.restore(state), "this state belongs to another query", line=False)


def test_state_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from hydrophone.ops.filters.fir import FirKernel

    query = signal().fir([1.0, 2.0])
    state = kept(running(query))
    monkeypatch.setattr(FirKernel, "VERSION", 7)
    fresh = Pipeline(lower([query.node]).roots)
    refused(
        StateVersionError,
        lambda: fresh.restore(state),
        "fir: the state has version 1, this release reads version 7",
        line=False,
    )


def test_errors_keep_their_parts_when_they_travel() -> None:
    """Spark sends exceptions between processes."""
    import pickle

    with pytest.raises(ParameterError) as caught:
        signal().window(4, hop=0)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.where, copy.hint) == (str(caught.value), caught.value.where, caught.value.hint)


def test_nodes_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        signal().node.timebase = None  # type: ignore[misc, attr-defined]
