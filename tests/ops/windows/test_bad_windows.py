"""What a user can get wrong with windows, spectra and rates; and what a window operator does to errors that would stay."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.cases import ALL_CASES
from tests.laws.harness import Manner, Run

import hydrophone as hp
from hydrophone.errors import DataError, HydrophoneError, ParameterError, PlanError, SignalTypeError, UnsupportedError

HERE = "test_bad_windows.py:"


def source(values: Any = (1.0, 2.0, 3.0, 4.0), key: str = "k") -> hp.Stream:
    n = len(values)
    return hp.from_arrow(pa.table({key: ["a"] * n, "t": np.arange(n) * 10, "v": values}), key=key, time="t")


def signal(values: Any = (1.0, 2.0, 3.0, 4.0)) -> hp.UniformSignal:
    return source(values).signal("v").sample(10)


def own_period() -> hp.UniformSignal:
    table = pa.table({"k": ["a"], "t": [0], "values": [[1.0, 2.0]], "period": [10.0]})
    return hp.from_segments(table, key="k", time="t", samples="values", period="period")


def vectors() -> hp.UniformSignal:
    table = pa.table({"k": ["a"], "t": [0], "v": [1.0], "w": [2.0]})
    return hp.from_arrow(table, key="k", time="t").signal("v", "w").sample(10)


def lived() -> hp.Signal:
    table = pa.table({"k": ["a"], "t": [0], "e": [5], "v": [1.0]})
    return hp.from_arrow(table, key="k", time="t", end="e").signal("v")


def other_key() -> hp.Windowed:
    return source(key="j").signal("v").sample(10).window(4)


def windows() -> hp.Windowed:
    return signal().window(4)


def spectra() -> hp.Windowed:
    return windows().fft()


def spectrum() -> hp.Windowed:
    return windows().rfft().power()


def wrong_axis(w: np.ndarray) -> np.ndarray:
    return w.sum(axis=0)


def raises(*_: np.ndarray) -> np.ndarray:
    raise KeyError("mine")


def moody(w: np.ndarray) -> np.ndarray:
    """Real when tried, complex on data."""
    return w[:, 0] if (w == 1).all() else w[:, 0] * 1j


def turns(v: np.ndarray) -> np.ndarray:
    return v if (v == 1).all() else v * 1j


def labelled(name: str = "v") -> hp.Windowed:
    return signal().epochs(source().with_columns(**{name: hp.col("v")}), before=1, after=1, columns=name)


class Holding(hp.StatefulOperator):
    def start(self) -> Any:
        return {"top": 0.0}

    def step(self, x: Any, state: Any) -> Any:
        return x


class Wide(hp.WindowOperator):
    def output_size(self, size: int) -> int:
        return 3

    def recompute(self, x: Any) -> Any:
        return x.all


class Short(hp.WindowOperator):
    slides = True

    def output_size(self, size: int) -> int:
        return 1

    def recompute(self, x: Any) -> Any:
        return x.all[:, :1]


class Nothing(hp.WindowOperator):
    def output_size(self, size: int) -> int:
        return 0


class Broken(hp.WindowOperator):
    def recompute(self, x: Any) -> Any:
        raise ValueError("mine")


BUILT: list[tuple[str, type[HydrophoneError], Callable[[], Any], tuple[str, ...]]] = [
    ("taper-name", ParameterError, lambda: windows().taper("hanning2"), ("taper: ", "hanning2")),
    ("taper-length", ParameterError, lambda: windows().taper([1.0, 2.0]), ("2 weights for windows of 4",)),
    ("multiply-nan", ParameterError, lambda: windows().multiply([1, 2, 3, np.nan]), ("weights must be finite",)),
    ("convolve-none", ParameterError, lambda: windows().convolve([]), ("convolve: taps must be a sequence of at least one number",)),
    ("convolve-mode", ParameterError, lambda: windows().convolve([1.0], "fast"), ("convolve: mode", "'fast'")),
    ("convolve-long", ParameterError, lambda: windows().convolve([1.0] * 5, "same"), ("at most as many taps",)),
    ("top-k", ParameterError, lambda: windows().top_k(0), ("top_k: k must be at least 1, got 0",)),
    ("trim-peak", ParameterError, lambda: windows().trim_peak(-1), ("trim_peak: around",)),
    ("select", ParameterError, lambda: windows().select([0, 4]), ("no position 4", "4 values")),
    ("select-nothing", ParameterError, lambda: windows().select(slice(2, 2)), ("leaves none",)),
    ("detrend", ParameterError, lambda: windows().detrend("square"), ("detrend: kind", "'square'")),
    ("reduce-axis", DataError, lambda: windows().reduce(wrong_axis), ("reduce: wrong_axis turned", "(2, 4) into (4,)")),
    ("reduce-raises", DataError, lambda: windows().reduce(raises), ("reduce: raises raised KeyError",)),
    ("reduce-bool", DataError, lambda: windows().reduce(np.any), ("no number",)),
    ("reduce-at", ParameterError, lambda: windows().reduce(np.max, at="middle"), ("at must be", "'middle'")),
    ("max-complex", SignalTypeError, lambda: spectra().max(), ("max: the values are complex",)),
    ("std-complex", SignalTypeError, lambda: (signal() * 1j).std(4), ("std: the values are complex",)),
    ("rms-size", ParameterError, lambda: signal().rms(0), ("rms: size must be at least 1",)),
    ("rms-hop", ParameterError, lambda: signal().rms(4, hop=0), ("rms: hop must be at least 1",)),
    ("rolling-kind", ParameterError, lambda: signal().rolling("mode", 3), ("no aggregate 'mode'", "kurtosis")),
    ("combine-size", SignalTypeError, lambda: windows().cross_correlate(signal().window(3)), ("cross_correlate: windows of 4",)),
    ("combine-grid", SignalTypeError, lambda: windows().combine(source().signal("v").sample(20).window(4), np.add), ("different grids",)),
    ("combine-key", SignalTypeError, lambda: windows().combine(other_key(), np.add), ("different keys",)),
    ("combine-raises", DataError, lambda: windows().combine(windows(), raises), ("combine: raises raised KeyError",)),
    ("combine-shape", DataError, lambda: windows().combine(windows(), lambda a, b: a[:1]), ("into (1, 4)",)),
    ("apply-function", ParameterError, lambda: windows().apply(np.max), ("apply: expected a WindowOperator",)),  # type: ignore[arg-type]
    ("apply-shape", DataError, lambda: windows().apply(Wide()), ("Wide.recompute gave", "(2, 4)", "output_size of 3")),
    (
        "aggregate-shape",
        DataError,
        lambda: windows().aggregate(lambda state, x: state + x.sum(axis=1)),
        ("aggregate: ", "lambda", "gave an array of shape (2, 2) for 2 windows and a state of 1 each", "keepdims=True"),
    ),
    ("apply-slides", ParameterError, lambda: windows().apply(Short()), ("answers of 1 values cannot slide with windows of 4",)),
    ("apply-nothing", ParameterError, lambda: windows().apply(Nothing()), ("output_size must give at least 1",)),
    ("apply-raises", DataError, lambda: windows().apply(Broken()), ("Broken.recompute raised ValueError",)),
    ("unwindow-complex", SignalTypeError, lambda: spectra().unwindow(np.mean), ("unwindow: the windows are complex",)),
    ("overlap-add-spectrum", SignalTypeError, lambda: windows().rfft().overlap_add(), ("windows of 4 samples have 3 values", "irfft")),
    ("overlap-add-power", SignalTypeError, lambda: spectrum().overlap_add(), ("windows of 4 samples have 3 values",)),
    ("overlap-add-longer", SignalTypeError, lambda: windows().autocorrelate().unwindow(), ("unwindow: windows of 4 samples",)),
    ("unwindow-spectrum", SignalTypeError, lambda: spectrum().unwindow(np.nanmax), ("unwindow: windows of 4 samples",)),
    ("unwindow-shape", DataError, lambda: windows().unwindow(np.mean), ("unwindow: mean turned",)),
    ("istft-hop", ParameterError, lambda: signal().stft(4, hop=8).istft(), ("istft: windows every 8 samples cannot be undone",)),
    ("spectrogram-scaling", ParameterError, lambda: signal().spectrogram(4, scaling="loud"), ("spectrogram: scaling must be",)),
    ("spectrogram-detrend", ParameterError, lambda: signal().spectrogram(4, detrend="cubic"), ("detrend: kind",)),
    (
        "welch-endless",
        PlanError,
        lambda: signal().welch(4).node.check_stream(None),
        ("comes at its end, which a stream does not have",),
    ),
    ("band-power-empty", ParameterError, lambda: signal().welch(4).band_power(1, 2), ("no line of the spectrum lies",)),
    ("band-power-scaling", ParameterError, lambda: signal().welch(4).band_power(0, 1e9, scaling="db"), ("scaling must",)),
    ("band-power-samples", SignalTypeError, lambda: signal().window(4).band_power(0, 1), ("expected spectra",)),
    ("frequencies-samples", SignalTypeError, lambda: signal().window(4).frequencies(), ("these are no spectra",)),
    ("welch-both", ParameterError, lambda: signal().welch(4, average=2, alpha=0.5), ("welch: give either",)),
    ("welch-average", ParameterError, lambda: signal().welch(4, average=0), ("average: count must be at least 1",)),
    ("welch-alpha", ParameterError, lambda: signal().welch(4, alpha=2.0), ("ema: alpha must be above 0",)),
    ("csd-complex", SignalTypeError, lambda: signal().csd(signal() * 1j, 4, average=2), ("csd: one signal is complex",)),
    ("goertzel-half", ParameterError, lambda: signal().goertzel(5e7, 4), ("goertzel: the frequency must be below half the rate (5e+07",)),
    ("goertzel-negative", ParameterError, lambda: signal().goertzel(-6e7, 4), ("goertzel: the frequency must be below half the rate",)),
    ("goertzel-text", ParameterError, lambda: signal().goertzel("70MHz", 4), ("goertzel: the frequency must be below half the rate",)),
    ("goertzel-nan", ParameterError, lambda: signal().goertzel(np.nan, 4), ("goertzel: the frequency must be finite",)),
    ("shift-frequency-per-key", PlanError, lambda: own_period().shift_frequency(5), ("shift_frequency: needs one period",)),
    ("welch-per-key", PlanError, lambda: own_period().welch(4, average=2), ("needs one period",)),
    ("mel-complex", SignalTypeError, lambda: windows().rfft().mel_bands(3), ("mel_bands: the values are complex",)),
    ("mel-samples", SignalTypeError, lambda: windows().mel_bands(3), ("mel_bands: expected spectra of 3 values",)),
    ("mel-count", ParameterError, lambda: windows().rfft().power().mel_bands(0), ("mel_bands: count",)),
    ("mel-high", ParameterError, lambda: windows().rfft().power().mel_bands(3, high=1e12), ("do not lie between",)),
    ("octave-fraction", ParameterError, lambda: windows().rfft().power().octave_bands(0), ("octave_bands: fraction",)),
    ("gcc-complex", SignalTypeError, lambda: spectra().gcc_phat(spectra()), ("gcc_phat: the windows are complex",)),
    ("gcc-delay", ParameterError, lambda: signal().gcc_phat(signal(), 4, max_delay="1s"), ("gcc_phat: max_delay",)),
    ("downsample", ParameterError, lambda: signal().downsample(0), ("downsample: n must be at least 1",)),
    ("downsample-phase", ParameterError, lambda: signal().downsample(3, 3), ("downsample: phase must be from 0 to 2",)),
    ("upsample", ParameterError, lambda: signal().upsample(0), ("upsample: n must be at least 1",)),
    ("upsample-how", ParameterError, lambda: signal().upsample(2, "cubic"), ("upsample: how", "'cubic'")),
    ("upsample-too-fine", ParameterError, lambda: signal().upsample(11), ("period must be at least 1ns",)),
    ("decimate", ParameterError, lambda: signal().decimate(0), ("decimate: n must be at least 1",)),
    ("resample-poly-neither", ParameterError, lambda: signal().resample_poly(), ("give either a rate, or up and down",)),
    ("resample-poly-zero", ParameterError, lambda: signal().resample_poly(up=0), ("up and down must be at least 1",)),
    ("resample-poly-even", ParameterError, lambda: signal().resample_poly(down=2, window=[1.0, 1.0]), ("odd number",)),
    ("resample-poly-ratio", ParameterError, lambda: signal().resample_poly(12345.678), ("up and down must be from 1",)),
    ("resample-poly-rate", ParameterError, lambda: signal().resample_poly(-1.0), ("the rate must be positive",)),
    ("resample-poly-per-key", SignalTypeError, lambda: own_period().resample_poly("1kHz"), ("one period for all keys",)),
    ("resample-poly-missing", ParameterError, lambda: signal().resample_poly(up=2, missing="reset"), ("missing must be",)),
    ("resample-per-key", SignalTypeError, lambda: own_period().resample(5), ("resample: needs a fill",)),
    ("clip-nothing", ParameterError, lambda: signal().clip(), ("clip: give low, high or both",)),
    ("clip-order", ParameterError, lambda: signal().clip(2, 1), ("low must not be above high",)),
    ("clip-nan", ParameterError, lambda: signal().clip(np.nan), ("must be numbers",)),
    ("clip-complex", SignalTypeError, lambda: (signal() * 1j).clip(0), ("clip: the values are complex",)),
    ("clip-too-large", ParameterError, lambda: signal(np.array([1, 2], np.uint8)).clip(300), ("does not fit", "uint8")),
    ("map-shape", DataError, lambda: signal().map(np.max), ("map: max turned", "(3,) into ()")),
    ("map-raises", DataError, lambda: signal().map(raises), ("map: raises raised KeyError",)),
    ("map-type", DataError, lambda: signal().map(lambda v: v > 0), ("gave bool, and not numbers",)),
    ("where-type", DataError, lambda: signal().where(lambda v: v), ("gave float64, and not truth values",)),
    ("where-shape", DataError, lambda: vectors().where(lambda v: v > 0), ("where: ", "shape (3, 2)")),
    ("where-raises", DataError, lambda: signal().where(raises), ("where: raises raised KeyError",)),
    ("scale", ParameterError, lambda: signal().scale("loud"), ("scale: number must be a number",)),  # type: ignore[arg-type]
    ("constant", ParameterError, lambda: hp.constant("x"), ("constant: value must be a number",)),  # type: ignore[arg-type]
    ("fill-gap", ParameterError, lambda: hp.cubic(-5), ("max_gap must be positive",)),
    ("fill-points", ParameterError, lambda: hp.fill_with(np.add, 1), ("fill_with: points must be at least 2",)),
    ("fill-lifetimes", SignalTypeError, lambda: lived().sample(5, fill=hp.cubic(9)), ("needs point events",)),
    ("snap-tolerance", ParameterError, lambda: source().signal("v").snap(10, 5), ("less than half the period",)),
    ("snap-negative", ParameterError, lambda: source().signal("v").snap(10, -1), ("less than half the period",)),
    ("snap-lifetimes", SignalTypeError, lambda: lived().snap(10, 2), ("snap: these events have lifetimes",)),
    ("period-of-one", DataError, lambda: hp.estimate_period([5, 5]), ("at least two different instants",)),
    ("epochs-negative", ParameterError, lambda: signal().epochs(source(), before=-1, after=2), ("must not be negative",)),
    ("epochs-keys", SignalTypeError, lambda: signal().epochs(source(key="j"), before=1, after=2), ("the keys differ",)),
    ("combine-channels", SignalTypeError, lambda: vectors().window(4).combine(windows(), np.add), ("combine: these windows have 2",)),
    ("iterate-channels", SignalTypeError, lambda: vectors().iterate(Holding()), ("iterate: these windows have 2 channels", "channel(0)")),
    ("no-channel", ParameterError, lambda: vectors().stft(4).channel(2), ("channel: no channel 2; these windows have 2",)),
    ("plot-channels", UnsupportedError, lambda: vectors().stft(4).plot(), ("plot: these windows have 2 channels", "channel(0)")),
    ("epochs-column", ParameterError, lambda: signal().epochs(source(), before=1, after=2, columns="x"), ("no column 'x'", "has: v")),
    ("epochs-time", ParameterError, lambda: signal().epochs(source(), before=1, after=2, columns="t"), ("two columns 't': its time",)),
    ("epochs-twice", ParameterError, lambda: signal().epochs(source(), before=1, after=2, columns=["v", "v"]), ("two columns 'v'",)),
    ("epochs-value", ParameterError, lambda: labelled("value").rms(), ("rms: the result would have two columns 'value'",)),
    ("epochs-average", SignalTypeError, lambda: labelled().average(2), ("average: these windows carry columns of events (v)",)),
    ("epochs-overlap-add", SignalTypeError, lambda: labelled().overlap_add(), ("overlap_add: these windows carry columns",)),
    ("epochs-combine", SignalTypeError, lambda: labelled().combine(labelled(), np.add), ("combine: these windows carry columns",)),
    ("sliding-dft-size", ParameterError, lambda: signal().sliding_dft(1), ("sliding_dft: size must be at least 2",)),
    ("sliding-dft-hop", ParameterError, lambda: signal().sliding_dft(64, hop=9), ("sliding_dft: hop must be from 1 to 4",)),
    ("sliding-dft-complex", SignalTypeError, lambda: (signal() * 1j).sliding_dft(4), ("sliding_dft: the values are complex",)),
    ("sliding-dft-channels", SignalTypeError, lambda: vectors().sliding_dft(4), ("2 channels",)),
    ("unwindow-raises", DataError, lambda: windows().unwindow(raises), ("unwindow: raises raised KeyError",)),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "does", "says"), [b[1:] for b in BUILT], ids=[b[0] for b in BUILT])
def test_refused_when_built(kind: type[HydrophoneError], does: Callable[[], Any], says: tuple[str, ...]) -> None:
    with pytest.raises(kind) as caught:
        does()
    assert type(caught.value) is kind
    for part in says:
        assert part in str(caught.value), f"{part!r} is not in: {caught.value}"
    assert re.search(r"\n  at test_bad_windows\.py:\d+", str(caught.value)), str(caught.value)


def test_a_function_that_changes_its_mind_is_named() -> None:
    with pytest.raises(DataError, match=r"reduce: moody gave complex128, and float64 when it was tried"):
        windows().reduce(moody).to_arrow()


def in_place(v: np.ndarray) -> np.ndarray:
    v *= 2
    return v


class InPlace(hp.WindowOperator):
    def recompute(self, x: Any) -> Any:
        return in_place(x.all)


@pytest.mark.parametrize(
    "query",
    [
        lambda: signal().map(in_place),
        lambda: windows().map(in_place),
        lambda: windows().reduce(in_place),
        lambda: windows().unwindow(in_place),
        lambda: windows().apply(InPlace()),
        lambda: windows().combine(windows(), lambda a, b: in_place(a)),
    ],
    ids=["map", "map-windows", "reduce", "unwindow", "apply", "combine"],
)
def test_a_function_that_changes_its_input_is_refused(query: Callable[[], Any]) -> None:
    """The same array may be the input of another operator."""
    with pytest.raises(DataError, match=r"read-only(?s:.*)make a new one"):
        query()


def flat(offsets: np.ndarray, values: np.ndarray) -> np.ndarray:
    return values


def test_a_fill_of_ones_own_that_fails_is_named() -> None:
    readings = source().signal("v")
    with pytest.raises(DataError, match=r"fill_with: flat gave an array of shape"):
        readings.sample(5, fill=hp.fill_with(flat, 3, 100)).to_arrow()
    with pytest.raises(DataError, match=r"fill_with: raises raised KeyError"):
        readings.sample(5, fill=hp.fill_with(raises, 3, 100)).to_arrow()


def test_the_period_of_jittered_stamps() -> None:
    rng = np.random.default_rng(0)
    beats = np.flatnonzero(rng.random(5000) > 0.2)
    stamps = (beats * 10_000_000 + rng.normal(0, 400_000, len(beats))).astype(np.int64)
    assert abs(hp.estimate_period(stamps) - 10_000_000) < 50


def test_a_sample_function_that_changes_its_mind_is_named() -> None:
    with pytest.raises(DataError, match=r"map: .*turns.* gave complex128"):
        signal().map(turns).to_arrow()


@pytest.mark.parametrize(("marks", "made"), [(True, 7), (False, 385)])
def test_an_operator_updates_where_the_one_before_slides(marks: bool, made: int) -> None:
    """Of 385 windows seven begin 64 of the grid; the others are recomputed only where nobody says what came and went."""
    rows: list[int] = []
    note = rows.append

    class Double(hp.WindowOperator):
        slides = marks

        def recompute(self, x: Any) -> Any:
            return 2 * x.all

    class Total(hp.WindowOperator):
        def output_size(self, size: int) -> int:
            return 1

        def recompute(self, x: Any) -> Any:
            note(0 if (x.all == x.all[:, :1]).all() else len(x.all))  # the operator is tried on ones
            return x.all.sum(axis=1, keepdims=True)

        def update(self, x: Any, y: Any) -> Any:
            return y + x.new.sum(axis=1, keepdims=True) - x.old.sum(axis=1, keepdims=True)

    query = signal(np.arange(400.0)).window(16, hop=1).apply(Double()).apply(Total())
    found = query.to_pandas()
    assert sum(rows) == made
    assert [v[0] for v in found["values"]] == [2.0 * sum(range(n, n + 16)) for n in range(385)]


def test_a_burst_does_not_stay_in_a_window_operator() -> None:
    """After 1e12 and silence, updates alone would show the rounding of 1e24 for ever."""

    class Energy(hp.WindowOperator):
        def output_size(self, size: int) -> int:
            return 1

        def recompute(self, x: Any) -> Any:
            return (x.all**2).sum(axis=1, keepdims=True)

        def update(self, x: Any, y: Any) -> Any:
            return y + (x.new**2).sum(axis=1, keepdims=True) - (x.old**2).sum(axis=1, keepdims=True)

    quiet = np.full(400, 0.1)
    quiet[50] = 1e12
    quiet[300] = np.nan
    found = signal(quiet).window(16, hop=1).apply(Energy()).to_pandas()
    energy = found.set_index(found["t"] // 10)["values"].str[0]
    assert abs(energy[66] - 0.16) > 0.1  # the burst has left the window, its rounding has not
    assert abs(energy.loc[64 + 15 :].dropna() - 0.16).max() < 1e-12  # recomputed at the next multiple of 64
    assert np.isnan(energy.loc[300:315]).all() and not np.isnan(energy.loc[316:]).any()  # NaN leaves with its window


def test_a_burst_does_not_stay_in_a_rolling_aggregate() -> None:
    quiet = np.full(400, 0.1)
    quiet[50] = 1e12
    quiet[300] = np.nan
    for kind, value in (("rms", 0.1), ("mean", 0.1), ("std", 0.0)):
        found = signal(quiet).rolling(kind, 16, hop=1).to_pandas()
        after = found[(found["t"] > 660) & (found["t"] < 3000) | (found["t"] > 3150)]["value"]
        assert abs(after - value).max() < 1e-15


def test_a_burst_does_not_stay_in_a_sliding_dft() -> None:
    rng = np.random.default_rng(3)
    quiet = rng.normal(size=3000)
    quiet[500] = 1e12
    quiet[1500] = np.nan
    found = signal(quiet).sliding_dft(64).to_arrow()
    for time, line in zip(found["t"].to_pylist(), found["values"].to_pylist(), strict=True):
        end = time // 10
        got = np.array(line["re"]) + 1j * np.array(line["im"])
        wanted = np.fft.rfft(quiet[end - 63 : end + 1])
        if 1500 <= end < 1564:
            assert np.isnan(got).all()
        else:
            assert abs(got - wanted).max() < 1e-10 * abs(wanted).max()


def test_epochs_keep_samples_while_nothing_is_known_of_the_events() -> None:
    """The mark of the events is then below all numbers, and must not wrap around."""
    case = next(c for c in ALL_CASES if c.name == "epochs-44khz")
    case.check(Run(case).go(Manner(seed=52392, disorder=0.0, chunk=1, eager=1.0, sweeps=False)))


def test_windows_leave_as_arrays() -> None:
    table = signal(np.arange(8.0)).window(4, hop=2).to_arrow()
    assert table.schema.field("values").type == pa.list_(pa.float64())
    assert table["values"].to_pylist() == [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7]]
    spectra = signal(np.arange(8.0)).window(4).rfft().to_arrow()
    arrays = pa.list_(pa.float64())
    assert spectra.schema.field("values").type == pa.struct([("re", arrays), ("im", arrays)])
    assert spectra["values"].to_pylist()[0] == {"re": [6, -2, -2], "im": [0, 2, 0]}


@pytest.mark.parametrize("positions", [slice(0.5, 2), slice("a", None), slice(0, 8, 0)])
def test_slices_that_are_none(positions: slice) -> None:
    rows = pa.table({"t": np.arange(16), "v": np.zeros(16)})
    with pytest.raises(hp.ParameterError, match="select: slice"):
        hp.from_arrow(rows, time="t").signal("v").sample(1).window(8).select(positions)
