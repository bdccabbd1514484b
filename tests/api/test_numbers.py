"""Numbers at the ends of their types: nothing wraps in silence, nothing overflows for good, and nothing is rounded more than is said."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.signal

import hydrophone as hp
from hydrophone.errors import DataError, ParameterError, SignalTypeError
from hydrophone.ops.aggregates.summaries import IntegerSum, WideSum
from hydrophone.ops.filters.feedback import largest_input

SOS = scipy.signal.butter(2, 0.2, output="sos")


def stream(values: Any, kind: pa.DataType | None = None) -> Any:
    column = pa.array(values, kind)
    rows = pa.table(
        {"t": np.arange(len(column)), "end": np.arange(len(column)) + 100, "n": np.arange(len(column)), "v": column}
    )
    return hp.from_arrow(rows, time="t", end="end")


def signal(values: Any) -> Any:
    rows = pa.table({"t": np.arange(len(values)) * 1_000_000, "v": values})
    return hp.from_arrow(rows, time="t").signal("v").sample("1ms")


def numbers(query: Any) -> np.ndarray:
    """The values of an answer: a column of samples, or an array per window."""
    table = query.to_arrow()
    column = table["value"] if "value" in table.column_names else table["values"]
    return np.array([_plain(v) for v in column.to_pylist()])


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return np.asarray(value["re"]) + 1j * np.asarray(value["im"])
    return value


# --- sums of integers ----------------------------------------------------------------------------------------------------------

WINDOWS: dict[str, Callable[[Any], Any]] = {
    "tumble": lambda s: s.tumble(100),
    "tumble-report": lambda s: s.tumble(100, report=50),
    "sliding": lambda s: s.sliding(100, every=100),
    "session": lambda s: s.session(100),
    "snapshot": lambda s: s.snapshot(),
    "count_window": lambda s: s.count_window(100, by="n"),
    "last_n": lambda s: s.last_n(100),
}
FITS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "uint64": (pa.uint64(), [2**63, 2**63 - 1, None]),
    "int64": (pa.int64(), [2**63 - 1, 0, None]),
    "int64-low": (pa.int64(), [-(2**63), 2**63 - 1, 0]),
    "uint32": (pa.uint32(), [2**32 - 1] * 3),
    "int32": (pa.int32(), [-(2**31)] * 3),
    "uint8": (pa.uint8(), [255] * 3),
    "nothing": (pa.uint64(), [None, None]),
}
BEYOND: dict[str, tuple[pa.DataType, list[int]]] = {
    "uint64": (pa.uint64(), [2**64 - 1, 1]),
    "int64": (pa.int64(), [2**63 - 1, 1]),
    "int64-low": (pa.int64(), [-(2**63), -1]),
}


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("name", FITS)
def test_sums_of_integers_are_exact(window: str, name: str) -> None:
    kind, values = FITS[name]
    found = WINDOWS[window](stream(values, kind)).agg(s=hp.sum("v")).to_arrow()["s"]
    there = [v for v in values if v is not None]
    assert found.type == (pa.uint64() if kind == pa.uint64() else pa.int64())
    if there or window != "snapshot":  # a snapshot is a signal, which has no nulls
        assert (sum(there) if there else None) in found.to_pylist()


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("name", BEYOND)
def test_a_sum_that_has_no_room_is_an_error(window: str, name: str) -> None:
    kind, values = BEYOND[name]
    query = WINDOWS[window](stream(values, kind)).agg(s=hp.sum("v"))
    with pytest.raises(DataError, match=f"sum: column 'v' adds up to {sum(values)} in a window, which {kind} cannot"):
        query.to_arrow()


def test_only_the_whole_sum_must_fit() -> None:
    values = [2**63 - 1] * 3 + [-(2**63)] * 3
    assert stream(values).tumble(100).agg(s=hp.sum("v")).to_arrow()["s"].to_pylist() == [-3]


def test_more_events_than_a_sum_has_room_for_are_an_error() -> None:
    halves = [np.array([1]), np.array([1]), np.array([2**31 + 1])]
    with pytest.raises(DataError, match="2,147,483,649 values of column 'v'"):
        WideSum("v", (np.add,) * 3).result(halves)
    with pytest.raises(DataError, match=r"more than 36,028,797,018,963,968"):
        IntegerSum("v", bits=8).result([np.array([1]), np.array([2**55 + 1])])


@pytest.mark.parametrize("kind", ["bool", "decimal", "text"])
def test_what_is_no_number_has_no_sum(kind: str) -> None:
    column = {"bool": pa.array([True]), "decimal": pa.array([1]).cast(pa.decimal128(20, 0)), "text": pa.array(["a"])}[
        kind
    ]
    for aggregate in (hp.sum, hp.mean, hp.variance, hp.std):
        with pytest.raises(SignalTypeError, match="not a number"):
            stream(column).tumble(10).agg(s=aggregate("v"))


@pytest.mark.parametrize("kind", ["int64", "uint64"])
@pytest.mark.parametrize(
    "query", [lambda x: x.moving_sum(3), lambda x: x.rolling("sum", 3), lambda x: x.window(3).sum()], ids=["moving", "rolling", "window"]
)  # fmt: skip
def test_sums_of_samples_are_exact_or_an_error(query: Any, kind: str) -> None:
    top = np.iinfo(kind).max
    fits = np.array([top // 3, top // 3, top // 3, 0, 0, 0], kind)
    assert numbers(query(signal(fits)))[0] == 3 * (top // 3)
    with pytest.raises(DataError, match="sum: the samples of a window add up to"):
        query(signal(np.full(6, top // 2, kind))).to_arrow()


def test_a_sequence_beyond_63_bits_is_an_error() -> None:
    rows = pa.table({"t": [0, 1], "n": pa.array([1, 2**63], pa.uint64()), "v": [1, 2]})
    with pytest.raises(DataError, match="'n' has 9223372036854775808"):
        hp.from_arrow(rows, time="t").count_window(2, by="n").agg(s=hp.sum("v")).to_arrow()


# --- samples that overflow -----------------------------------------------------------------------------------------------------

RECURSIVE: dict[str, Callable[[Any], Any]] = {
    "sos": lambda x: x.sos(SOS),
    "sos-reset": lambda x: x.sos(SOS, missing="reset"),
    "sos-steady": lambda x: x.sos(SOS, initial="steady"),
    "iir": lambda x: x.iir([2, 0.5], [1, -0.9]),
    "iir-order-3": lambda x: x.iir(*scipy.signal.butter(3, 0.2)),
    "iir-complex": lambda x: x.iir([2, 0.5], [1, -0.9j]),
    "lowpass": lambda x: x.lowpass(100),
    "highpass": lambda x: x.highpass(100),
    "single_pole": lambda x: x.single_pole(0.1),
    "dc_block": lambda x: x.dc_block(0.9),
    "notch": lambda x: x.notch(100, 2.0),
    "filtfilt": lambda x: x.filtfilt(SOS),
    "integrate": lambda x: x.integrate(reset="500ms"),
    "integrate-rectangle": lambda x: x.integrate(reset="500ms", rule="rectangle"),
    "ema": lambda x: x.ema(0.9),
    "sta_lta": lambda x: x.sta_lta(3, 9),
    "sta_lta-recursive": lambda x: x.sta_lta(3, 9, recursive=True),
    "digital-filter": lambda x: x.filter(Doubling()),
    "sliding_dft": lambda x: x.sliding_dft(16),
    "goertzel": lambda x: x.goertzel(100, 16),
    "welch": lambda x: x.welch(16, alpha=0.9),
    **{f"moving-{k}": lambda x, k=k: x.moving(k, 9) for k in ("sum", "mean", "std", "energy", "rms", "median")},
    "kurtosis": lambda x: x.rolling("kurtosis", 9),
    "zscore": lambda x: x.zscore(9),
}
BURSTS = {
    "one": [1e308],
    "three": [1e308] * 3,
    "signs": [1e308, -1e308, 1e308],
    "largest": [np.finfo(float).max] * 2,
    "infinite": [np.inf],
}


class Doubling(hp.DigitalFilter):
    """An ``ema`` whose sum overflows before it is halved."""

    forward, backward, missing = 1, 1, "reset"

    def compute(self, x: Any, y: Any) -> Any:
        return (x[-1] * 1.9 + y[-1] * 0.1) / 2.0


CALM = np.random.default_rng(3).normal(size=2000)


@cache
def calm_answer(name: str) -> np.ndarray:
    return numbers(RECURSIVE[name](signal(CALM)))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("burst", BURSTS)
@pytest.mark.parametrize("name", RECURSIVE)
def test_a_huge_reading_does_not_stay_for_ever(name: str, burst: str) -> None:
    loud = CALM.copy()
    loud[40 : 40 + len(BURSTS[burst])] = BURSTS[burst]
    expected, found = calm_answer(name), numbers(RECURSIVE[name](signal(loud)))
    late = len(found) * 3 // 4
    # What a filter forgets by a factor per sample has come down from 1e308 to nothing by then.
    np.testing.assert_allclose(found[late:], expected[late:], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "name", ["sos", "sos-steady", "iir", "iir-order-3", "iir-complex", "integrate", "ema", "digital-filter"]
)
def test_a_key_that_overflows_touches_no_other_and_no_cut_matters(name: str) -> None:
    rng = np.random.default_rng(4)
    v = rng.normal(size=600)
    v[[50, 51, 200, 203]] = 1e308, 1.7e308, -1e308, np.nan
    rows = pa.table({"t": np.repeat(np.arange(300) * 1_000_000, 2), "k": np.tile([0, 1], 300), "v": v})

    def query(some: pa.Table) -> Any:
        return RECURSIVE[name](hp.from_arrow(some, time="t", key="k").signal("v").sample("1ms"))

    whole = query(rows).to_arrow().sort_by([("k", "ascending"), ("t", "ascending")])
    for key in (0, 1):
        alone = query(rows.filter(pa.compute.equal(rows["k"], key))).to_arrow().sort_by("t")
        mine = whole.filter(pa.compute.equal(whole["k"], key))
        np.testing.assert_array_equal(
            *(np.array([_plain(x) for x in t["value"].to_pylist()]) for t in (alone, mine))
        )  # fmt: skip
    for size in (1, 7, 64):
        some = pa.concat_tables(b for b in query(rows).batches(size)).sort_by([("k", "ascending"), ("t", "ascending")])
        np.testing.assert_array_equal(
            *(np.array([_plain(x) for x in t["value"].to_pylist()]) for t in (some, whole))
        )  # fmt: skip


def test_the_bound_of_a_filter_is_no_larger_than_what_it_can_take() -> None:
    for order, edge in ((1, 0.5), (4, 0.3), (8, 0.01), (2, 1e-4)):
        sections = scipy.signal.butter(order, edge, output="sos")
        most = largest_input(sections.reshape(-1, 2, 3))
        assert 1e150 < most < 1e308
        worst = np.sign(np.random.default_rng(5).normal(size=5000)) * most
        assert np.isfinite(scipy.signal.sosfilt(sections, worst)).all()


# --- peaks ---------------------------------------------------------------------------------------------------------------------


def test_a_shoulder_is_no_peak() -> None:
    assert signal([0, 1, 1, 2, 0, 0]).find_peaks().to_arrow()["height"].to_pylist() == [2.0]


@pytest.mark.parametrize("kind", ["int8", "int64", "uint64", "float32", "float64"])
@pytest.mark.parametrize("plateau", [1, 3, 1000])
@pytest.mark.parametrize("seed", range(5))
def test_peaks_are_those_of_scipy(seed: int, plateau: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    x = np.repeat(rng.integers(0, 4, 80), rng.integers(1, 6, 80)).astype(kind)
    edges = scipy.signal.find_peaks(x, plateau_size=(1, plateau))[1]["left_edges"]
    found = signal(x).find_peaks(plateau=plateau).to_arrow()
    assert (found["t"].to_numpy() // 1_000_000).tolist() == edges.tolist()
    assert found["height"].to_pylist() == x[edges].astype(float).tolist()


def test_long_integers_are_compared_as_they_are() -> None:
    x = np.array([2**60, 2**60 + 1, 2**60], np.int64)  # equal, as doubles
    assert len(signal(x).find_peaks().to_arrow()) == 1


def test_a_plateau_is_waited_for_and_holds_progress() -> None:
    x = np.array([0.0, 2.0] + [2.0] * 500 + [1.0] + [0.0] * 20)
    counted = signal(x).find_peaks().tumble("10ms").agg(n=hp.count())
    for size in (1, 7, 1000):
        found = pa.concat_tables(counted.batches(size))
        assert found["t"].to_pylist() == [0] and found["n"].to_pylist() == [1]
    assert len(signal(x).find_peaks(plateau=501).to_arrow()) == 1
    assert len(signal(x).find_peaks(plateau=500).to_arrow()) == 0


@pytest.mark.parametrize("end", [[], [np.nan, 0.0], [3.0, 3.0], [np.inf, 0.0]])
def test_a_plateau_without_a_fall_is_no_peak(end: list[float]) -> None:
    heights = signal(np.array([0.0, 2.0, 2.0, 2.0, *end])).find_peaks().to_arrow()["height"].to_pylist()
    assert 2.0 not in heights


# --- transforms ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e12, 1e308])
@pytest.mark.parametrize("taps", [64, 65, 100])
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_convolutions_are_those_of_numpy_whatever_a_row_holds(mode: str, taps: int, bad: float) -> None:
    rng = np.random.default_rng(7)
    x, h = rng.normal(size=480), rng.normal(size=taps)
    x[[3, 250]] = bad
    found = numbers(signal(x).window(120).convolve(h, mode))
    expected = np.array([np.convolve(w, h, mode) for w in x.reshape(-1, 120)])
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))
    fine = np.isfinite(expected)
    # Far from a burst of 1e12 the answer is as good as without it.
    assert np.abs(found - expected)[fine & (np.abs(expected) < 1e6)].max() <= 1e-12
    np.testing.assert_allclose(found[fine], expected[fine], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("size", [64, 65, 128])
@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e12, 1e200])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_autocorrelations_are_those_of_numpy_whatever_a_row_holds(size: int, bad: float) -> None:
    x = np.random.default_rng(8).normal(size=3 * size)
    x[size + 5] = bad
    found = numbers(signal(x).window(size).autocorrelate())
    expected = np.array([np.correlate(w, w, "full") for w in x.reshape(3, size)])
    np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))
    fine = np.isfinite(expected)
    np.testing.assert_allclose(found[fine], expected[fine], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("size", range(1, 10))
@pytest.mark.parametrize("kind", ["float32", "float64", "complex128"])
def test_spectra_of_every_size_come_back(size: int, kind: str) -> None:
    rng = np.random.default_rng(9)
    x = rng.normal(size=size * 12).astype(kind)
    if kind == "complex128":
        x += 1j * rng.normal(size=len(x))
        parts = pa.StructArray.from_arrays([pa.array(x.real), pa.array(x.imag)], ["re", "im"])
        made = (
            hp.from_arrow(pa.table({"t": np.arange(len(x)) * 1_000_000, "v": parts}), time="t")
            .signal("v")
            .sample("1ms")
        )
    else:
        made = signal(x)
    tolerance = 1e-5 if kind == "float32" else 1e-12
    for hop in {1, max(size // 2, 1), size}:
        found = numbers(made.stft(size, hop=hop, window="boxcar").istft("boxcar"))
        inside = slice(size - 1, len(x) - size + 1)  # samples that all windows cover
        np.testing.assert_allclose(found[inside], x[inside], atol=tolerance)
    np.testing.assert_allclose(numbers(made.window(size).fft().ifft().overlap_add()), x, atol=tolerance)
    if kind != "complex128":
        np.testing.assert_allclose(numbers(made.window(size).rfft().irfft().overlap_add()), x, atol=tolerance)
    with pytest.raises(SignalTypeError, match="irfft: expected"):
        made.window(size).fft().irfft() if size < 3 else made.window(size).irfft()


@pytest.mark.parametrize("size", [1, 2, 3, 4, 9])
def test_the_power_of_all_bands_is_that_of_the_samples(size: int) -> None:
    """Parseval's theorem, in windows of every size."""
    values = np.random.default_rng(size).normal(size=36)
    spectra = signal(values).spectrogram(size, hop=size, window="boxcar", detrend=None)
    expected = (values.reshape(-1, size) ** 2).mean(axis=1)
    np.testing.assert_allclose(numbers(spectra.band_power(0, "500Hz")), expected, rtol=1e-12)


def test_complex_weights_come_back_too() -> None:
    x, w = np.random.default_rng(10).normal(size=64), np.exp(1j * np.arange(8)) * np.hanning(8 + 2)[1:-1]
    found = numbers((signal(x) * (1 + 0j)).stft(8, hop=2, window=w).istft(w))
    np.testing.assert_allclose(found[8:-8], x[8:-8], atol=1e-12)


# --- coefficients --------------------------------------------------------------------------------------------------------------

TAKES: dict[str, Callable[[Any], Any]] = {
    "fir: taps": lambda h: signal(np.ones(9)).fir(h),
    "fir_ahead: taps": lambda h: signal(np.ones(9)).fir_ahead(h),
    "iir: b": lambda h: signal(np.ones(9)).iir(h, [1.0]),
    "iir: a": lambda h: signal(np.ones(9)).iir([1.0], h),
    "convolve: taps": lambda h: signal(np.ones(9)).convolve(h),
    "correlate: pattern": lambda h: signal(np.ones(9)).correlate(h),
    "matched_filter: template": lambda h: signal(np.ones(9)).matched_filter(h),
    "resample_poly: window": lambda h: signal(np.ones(9)).resample_poly(up=2, window=h),
    "multiply: weights": lambda h: signal(np.ones(9)).window(3).multiply(h),
    "convolve: taps (windows)": lambda h: signal(np.ones(9)).window(3).convolve(h),
    "taper: window": lambda h: signal(np.ones(9)).window(3).taper(h),
    "taper: window (stft)": lambda h: signal(np.ones(9)).stft(3, window=h),
    "istft: window": lambda h: signal(np.ones(9)).stft(3).istft(h),
    "taper: window (spectrogram)": lambda h: signal(np.ones(9)).spectrogram(3, window=h),
    "taper: window (welch)": lambda h: signal(np.ones(9)).welch(3, average=2, window=h),
}
WRONG: dict[str, tuple[Any, str]] = {
    "matrix": (np.ones((3, 1)), "a sequence of at least one number, got float64 of shape (3, 1)"),
    "ragged": ([[1.0], [1.0, 2.0]], "a sequence of at least one number"),
    "empty": ([], "a sequence of at least one number"),
    "text": (["a", "b", "c"], "a sequence of at least one number, got <U1"),
    "truth": ([True, False, True], "a sequence of at least one number, got bool"),
    "nan": ([1.0, np.nan, 1.0], "finite, got nan"),
    "infinite": ([1.0, 1.0, np.inf], "finite, got inf"),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("name", TAKES)
def test_coefficients_are_checked_when_the_query_is_built(name: str, wrong: str) -> None:
    values, message = WRONG[wrong]
    with pytest.raises(ParameterError) as error:
        TAKES[name](values)
    assert f"{name.partition(' (')[0]} must be {message}" in str(error.value)
    assert "test_numbers.py" in str(error.value)


@pytest.mark.parametrize("name", [n for n in TAKES if n not in ("iir: a", "istft: window")])
def test_complex_coefficients_work_or_are_refused(name: str) -> None:
    """The imaginary part is never dropped in silence."""
    taps = np.array([0.5, 1j, 0.25])
    try:
        found = numbers(TAKES[name](taps))
    except (ParameterError, SignalTypeError) as error:
        assert "complex" in str(error)
    else:
        assert np.abs(found.imag).max() > 0.1


def test_complex_sections_are_refused() -> None:
    with pytest.raises(ParameterError, match="sos: sections must be rows of six real coefficients, got complex128"):
        signal(np.ones(9)).sos(SOS * (1 + 0j))
