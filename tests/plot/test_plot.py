"""Pictures show what is there: spikes, holes, the right places; and never more points than pixels need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hydrophone as hp
from hydrophone.plot.envelope import Trace, hole_spans, thin_trace

START = 1_760_000_000_000_000_000


@pytest.fixture(autouse=True)
def close_figures() -> Any:
    yield
    plt.close("all")


def signal(*runs: tuple[str, int, Any], period: str = "1ms", stamps: bool = True) -> hp.UniformSignal:
    """Runs of samples: key, first index, values."""
    step = hp.Timebase.every(period).period
    times = pa.array([(START if stamps else 0) + int(first * step) for _, first, _ in runs])
    table = pa.table(
        {
            "k": [key for key, _, _ in runs],
            "t": times.cast(pa.timestamp("ns")) if stamps else times,
            "values": [np.asarray(values, float) for _, _, values in runs],
        }
    )
    return hp.from_segments(table, key="k", time="t", period=period)


def lines(axes: Any) -> list[Any]:
    """The lines of signals: x and y."""
    return [line.get_data() for line in axes.get_lines() if line.get_gid() == "hydrophone"]


# --- thinning -----------------------------------------------------------------------------------------------------------


@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 3000),
    st.integers(1, 40),
    st.floats(0, 0.3),
    st.sampled_from([1, 7, 10**9]),
)
def test_thinning_keeps_extremes_and_ends_of_every_column(
    seed: int, n: int, columns: int, lost: float, step: int
) -> None:
    draw = np.random.default_rng(seed)
    index = np.flatnonzero(draw.random(n) >= lost)
    if not len(index):
        return
    value = draw.normal(size=len(index))
    apart = np.diff(index, prepend=-5) != 1
    time = START + index * step
    low, high = int(time[0]), int(time[-1])
    line = thin_trace(Trace(time, value, apart), low, high, columns)
    shown = np.isfinite(line.value)
    assert len(line.value) <= max(5 * columns, 2 * len(index))
    assert (np.diff(line.time) >= 0).all()
    column = lambda t: np.minimum(((t - low) / max(high - low, 1) * columns).astype(int), columns - 1)  # noqa: E731
    for c in range(columns):
        here, drawn = value[column(time) == c], line.value[shown][column(line.time[shown]) == c]
        assert (len(here) == 0) == (len(drawn) == 0)
        if len(here):
            assert (here.min(), here.max(), here[0], here[-1]) == (drawn.min(), drawn.max(), drawn[0], drawn[-1])
    assert set(line.time[line.dots]) <= set(time[apart])


@given(st.lists(st.booleans(), min_size=2, max_size=60))
def test_whole_lines_break_at_every_hole_and_show_lone_samples(there: list[bool]) -> None:
    index = np.flatnonzero(there)
    if not len(index):
        return
    line = thin_trace(Trace(index, index * 1.0, np.diff(index, prepend=-5) != 1), 0, len(there), 100)
    got = [list(map(int, run)) for run in _runs(line.value)]
    want = [list(map(int, run)) for run in _runs(np.where(there, np.arange(len(there)), np.nan))]
    assert got == want
    assert [int(v) for v in line.value[line.dots]] == [run[0] for run in want if len(run) == 1]


def _runs(values: Any) -> list[Any]:
    """The stretches between NaNs."""
    pieces = np.split(values, np.flatnonzero(np.isnan(values)))
    return [p[np.isfinite(p)] for p in pieces if np.isfinite(p).any()]


def test_what_is_not_finite_is_a_hole() -> None:
    trace = Trace.of(np.arange(6), np.array([1, np.nan, 3, np.inf, -np.inf, 6]), np.arange(6) == 0)
    assert trace.value.tolist() == [1, 3, 6] and trace.apart.tolist() == [True, True, True]


def test_a_hole_narrower_than_a_pixel_is_shown_as_wide_as_one() -> None:
    index = np.delete(np.arange(1_000_000), 500_000)
    trace = Trace(index, np.zeros(len(index)), np.diff(index, prepend=-5) != 1)
    assert hole_spans(trace, 1, 0, 1_000_000, 100).tolist() == [[500_000, 510_000]]


# --- signals ------------------------------------------------------------------------------------------------------------


def test_five_million_samples_are_few_points_and_the_spike_survives(tmp_path: Path) -> None:
    samples = np.random.default_rng(0).normal(size=5_000_000)
    samples[3_123_456] = 1000
    axes = signal(("a", 0, samples)).plot(path=tmp_path / "x.png")
    ((x, y),) = lines(axes)
    assert len(x) <= 5 * 2 * axes.figure.bbox.width
    assert np.nanmax(y) == 1000 and np.nanmin(y) == samples.min()
    width = (x[-1] - x[0]) / 500
    assert abs(x[np.nanargmax(y)] - (START + 3_123_456_000_000) / 86.4e12) < width
    assert (tmp_path / "x.png").read_bytes()[:4] == b"\x89PNG"


def test_the_spike_can_be_seen_in_the_picture(tmp_path: Path) -> None:
    samples = np.zeros(2_000_000)
    samples[1_000_000] = 1
    signal(("a", 0, samples)).plot(path=tmp_path / "x.png")
    pixels = plt.imread(tmp_path / "x.png")[:, :, :3]
    middle = pixels[pixels.shape[0] // 2]
    blue = (middle[:, 2] - middle[:, 0]) > 0.3
    assert 1 <= blue.sum() <= 6


@pytest.mark.parametrize("length", [400, 400_000])
def test_holes_are_gaps(length: int) -> None:
    axes = signal(("a", 0, np.ones(length)), ("a", 2 * length, np.ones(length))).plot()
    ((_, y),) = lines(axes)
    runs = np.flatnonzero(np.isnan(y))
    assert len(runs) == 2  # before the first sample, and at the hole
    assert axes.get_title(loc="right") == "bars below: no samples"


def test_runs_that_touch_are_one_line() -> None:
    axes = signal(("a", 0, np.ones(100)), ("a", 100, np.ones(100))).plot()
    assert np.isnan(lines(axes)[0][1]).sum() == 1
    assert axes.get_title(loc="right") == ""


def test_a_line_per_key_and_its_name() -> None:
    query = signal(("b", 0, np.ones(9)), ("a", 0, np.zeros(9)))
    assert [t.get_text() for t in query.plot().get_legend().get_texts()] == ["a", "b"]
    assert len(lines(query.plot(key="b"))) == 1
    assert [t.get_text() for t in query.plot(key=["b", "a"]).get_legend().get_texts()] == ["b", "a"]


def test_start_and_end() -> None:
    query = signal(("a", 0, np.arange(100)), stamps=False)
    ((_, y),) = lines(query.plot(start=10_000_000, end=20_000_000))
    assert y[np.isfinite(y)].tolist() == list(range(10, 20))


def test_channels_and_complex_samples_are_lines_too() -> None:
    rows = pa.table({"t": range(10), "x": np.ones(10), "y": np.zeros(10)})
    both = hp.from_arrow(rows, time="t").signal("x", "y").sample(1).plot()
    assert [t.get_text() for t in both.get_legend().get_texts()] == ["channel 0", "channel 1"]
    axes = (signal(("a", 0, np.ones(9))) * (3 + 4j)).plot()
    assert axes.get_ylabel() == "magnitude" and np.nanmax(lines(axes)[0][1]) == 5


def test_nanoseconds_are_not_lost_far_from_the_epoch() -> None:
    axes = signal(("a", 0, np.arange(50)), period="1ns").plot()
    x, y = lines(axes)[0]
    assert x[np.isfinite(y)].tolist() == list(range(50))
    assert axes.get_xlabel() == "ns since 2025-10-09T08:53:20.000000000"


def test_samples_that_are_not_finite_are_told() -> None:
    axes = signal(("a", 0, [1, np.nan, 3, np.inf])).plot()
    assert "2 samples are not finite" in axes.get_title(loc="right")


def test_pictures_share_axes() -> None:
    axes = signal(("a", 0, np.ones(9))).plot()
    assert signal(("b", 5000, np.ones(9))).plot(ax=axes) is axes
    low, high = axes.get_xlim()
    assert len(lines(axes)) == 2 and high - low > 5 / 1000


# --- spectra, intervals, events -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("full", [False, True])
def test_a_tone_is_loudest_at_its_frequency(full: bool) -> None:
    tone = np.sin(2 * np.pi * 125 * np.arange(20_000) / 1000)
    windows = signal(("a", 0, tone)).window(64, hop=32)
    axes = (windows.fft() if full else windows.rfft()).plot(key="a")
    (mesh,) = axes.collections
    image, borders = mesh.get_array(), mesh.get_coordinates()[:, 0, 1]
    middle = (borders[1:] + borders[:-1]) / 2
    assert axes.get_ylabel() == "frequency (Hz)"
    assert np.isclose(abs(middle[image[:, 10].argmax()]), 125)
    assert image.shape[1] == len(range(64, 20_001, 32))


def test_windows_that_are_missing_are_blank_and_a_loud_one_is_not_lost() -> None:
    noise = np.random.default_rng(0).normal(size=2_000_000)
    noise[700_000] = 1e4
    axes = signal(("a", 0, noise[:1_000_000]), ("a", 1_200_000, noise[1_000_000:])).window(64).rfft().plot()
    image = axes.collections[0].get_array()
    assert image.shape[1] <= 2 * axes.figure.bbox.width
    blank = np.ma.getmaskarray(image).all(axis=0)
    assert 0.08 < blank.mean() < 0.1
    assert image.max() == pytest.approx(80, abs=1)


def test_power_is_drawn_in_decibels_unless_said_otherwise() -> None:
    tone = signal(("a", 0, 3 * np.sin(2 * np.pi * 125 * np.arange(20_000) / 1000)))
    power = tone.spectrogram(64, hop=32)
    whole = np.stack(power.to_pandas()["values"])

    def drawn(query: Any, **options: Any) -> tuple[Any, str]:
        axes = query.plot(**options)
        return axes.collections[0], axes.collections[0].colorbar.ax.get_ylabel()

    mesh, label = drawn(power)
    assert label == "power (dB)" and mesh.get_array().max() == pytest.approx(10 * np.log10(whole.max()))
    mesh, label = drawn(power, scale="linear", unit="V²/Hz")
    assert label == "power (V²/Hz)" and mesh.get_array().max() == pytest.approx(whole.max())
    loudest = 20 * np.log10(np.abs(np.stack(tone.window(64).rfft().magnitude().to_pandas()["values"])).max())
    mesh, label = drawn(tone.window(64).rfft().magnitude(), unit="V")
    assert label == "magnitude (dB re 1 V)" and mesh.get_array().max() == pytest.approx(loudest)
    mesh, label = drawn(tone.window(64).rfft().phase())
    assert label == "value" and mesh.get_array().min() < 0
    with pytest.raises(hp.DataError, match="never negative"):
        tone.window(64).rfft().phase().plot(scale="db")


def test_title_unit_and_scale() -> None:
    query = signal(("a", 0, np.arange(10.0)))
    axes = query.plot(title="Bearing 7", unit="m/s")
    assert axes.get_title(loc="left") == "Bearing 7" and axes.get_ylabel() == "value (m/s)"
    with pytest.raises(hp.ParameterError, match="scale must be 'db' or 'linear', got 'log'"):
        query.window(4).rfft().plot(scale="log")  # type: ignore[arg-type]
    with pytest.raises(hp.ParameterError, match="scale is that of the colours of windows"):
        query.plot(scale="db")
    with pytest.raises(hp.ParameterError, match="events are drawn without"):
        query.above(3).plot(unit="m/s")


def test_silence_is_drawn() -> None:
    axes = signal(("a", 0, np.zeros(640))).window(64).rfft().plot()
    assert not np.ma.getmaskarray(axes.collections[0].get_array()).any()


def test_intervals_are_spans_and_short_ones_are_seen() -> None:
    samples = np.zeros(1_000_000)
    samples[100_000:200_000] = samples[500_000] = 1
    axes = signal(("a", 0, samples), ("b", 0, samples)).above(0.5).plot()
    assert [t.get_text() for t in axes.get_yticklabels()] == ["a", "b"]
    for spans in axes.collections:
        widths = [np.ptp(path.vertices[:, 0]) for path in spans.get_paths()]
        low, high = axes.get_xlim()
        assert len(widths) == 2 and min(widths) > (high - low) / 3000


def test_many_events_are_few_marks() -> None:
    rows = pa.table({"t": np.random.default_rng(0).integers(0, 10**9, 300_000)})
    axes = hp.from_arrow(rows, time="t").plot()
    (marks,) = axes.collections
    assert 500 < len(marks.get_segments()) <= 2 * axes.figure.bbox.width


@pytest.mark.parametrize("count", [50, 100_000])
def test_a_signal_is_drawn_at_its_values(count: int) -> None:
    value = np.random.default_rng(0).normal(size=count)
    axes = hp.from_arrow(pa.table({"t": np.arange(count), "v": value}), time="t").signal("v").plot()
    y = axes.get_lines()[0].get_ydata()
    assert (y.min(), y.max()) == (value.min(), value.max()) and len(y) < 5000
    assert axes.get_ylabel() == "v"


def test_aggregates_of_windows_are_steps_with_gaps() -> None:
    rows = pa.table({"t": [0, 5, 12, 41], "v": [1.0, 3.0, 4.0, 8.0], "k": ["a"] * 4})
    counted = hp.from_arrow(rows, time="t", key="k").tumble(10).agg(mean=hp.mean("v"), n=hp.count())
    axes = counted.select("mean").plot()
    (line,) = axes.get_lines()
    x, y = line.get_data()
    assert np.array_equal(x, [0, 10, 10, 20, np.nan, np.nan, 40, 50], equal_nan=True)
    assert np.array_equal(y, [2, 2, 4, 4, np.nan, np.nan, 8, 8], equal_nan=True)
    assert axes.get_ylabel() == "mean" and axes.get_title(loc="left") == "Mean of windows"
    assert [t.get_text() for t in counted.plot(key="a").get_legend().get_texts()] == ["a mean", "a n"]
    sliding = hp.from_arrow(rows, time="t").sliding(20, every=10).agg(mean=hp.mean("v")).plot()
    assert len(sliding.get_lines()) == 1 and not sliding.collections


def test_one_spectrum_per_key_is_a_line_over_frequency() -> None:
    tone = np.sin(2 * np.pi * 125 * np.arange(4096) / 1000)
    query = signal(("a", 0, tone), ("b", 0, 10 * tone)).welch(256)
    axes = query.plot(unit="V²/Hz")
    (x, quiet), (_, loud) = lines(axes)
    assert axes.get_xlabel() == "frequency (Hz)" and axes.get_ylabel() == "power (dB re 1 V²/Hz)"
    assert abs(x[loud.argmax()] - 125) < 4 and np.allclose((loud - quiet)[loud > -100], 20, atol=1e-6)
    assert np.array_equal(x, query.frequencies())


@pytest.mark.parametrize("bands", ["mel", "octave"])
def test_bands_are_named_by_their_frequencies(bands: str) -> None:
    noise = signal(("a", 0, np.random.default_rng(0).normal(size=8192)))
    spectra = noise.spectrogram(256)
    axes = (spectra.mel_bands(12) if bands == "mel" else spectra.octave_bands(3)).plot()
    assert axes.get_ylabel() == f"{bands} bands, middle frequency (Hz)"
    assert axes.collections[0].colorbar.ax.get_ylabel() == "power (dB)"
    names = [float(t.get_text()) for t in axes.get_yticklabels()]
    assert len(names) == 8 and names == sorted(names) and 0 < names[0] < names[-1] < 500


def test_titles_are_words() -> None:
    query = signal(("a", 0, np.arange(100.0)))
    assert query.plot(key="a").get_title(loc="left") == "K a: signal, 1 kHz"
    assert query.window(10).rfft().plot().get_title(loc="left") == "Spectra of 10 samples, 1 kHz"
    assert query.above(5).plot().get_title(loc="left") == "Events with lifetimes"


def test_panels_share_their_time(tmp_path: Path) -> None:
    query = signal(("a", 0, np.sin(np.arange(3000.0))))
    late = query.above(0.5).where(hp.col("samples") > 1)
    made = hp.plot.panels(query, query.spectrogram(64), late, key="a", path=tmp_path / "panels.png")
    assert len({axes.get_xlim() for axes in made}) == 1 and len(made) == 3
    assert (tmp_path / "panels.png").stat().st_size > 10_000
    with pytest.raises(hp.ParameterError, match="at least one query"):
        hp.plot.panels()
    for queries in ((query, query.welch(64)), (query.welch(64), query)):
        with pytest.raises(hp.ParameterError, match="axis of frequencies"):
            hp.plot.panels(*queries, path=tmp_path / "empty.png")
    assert not (tmp_path / "empty.png").exists()


def test_overlay_draws_the_events_of_the_same_key(tmp_path: Path) -> None:
    wave = np.sin(np.arange(1000) / 50)
    query = signal(("a", 0, wave), ("b", 0, np.zeros(1000)))
    rises = np.count_nonzero(np.diff((wave > 0.5).astype(int), prepend=0) == 1)
    axes = hp.plot.overlay(query, query.above(0.5), key="a", path=tmp_path / "x.png")
    (bands,) = axes.collections
    assert len(bands.get_paths()) == rises and len(lines(axes)) == 1
    points = hp.from_arrow(pa.table({"t": pa.array([START + 10**8]).cast(pa.timestamp("ns"))}), time="t")
    assert len(hp.plot.overlay(query, points, key="b").collections[0].get_segments()) == 1


# --- errors ---------------------------------------------------------------------------------------------------------------


def test_errors_name_the_choices(tmp_path: Path) -> None:
    query = signal(*((f"s-{i}", 0, np.ones(3)) for i in range(20)))
    with pytest.raises(
        hp.ParameterError,
        match=r"20 keys are too many .*\n  at test_plot\.py:\d+\n.*choose: key=...; there are: s-0;",
    ):
        query.plot()
    with pytest.raises(hp.DataError, match=r"no data of key s-99\n  at test_plot\.py:\d+\n.*there are: s-0;"):
        query.plot(key="s-99")
    with pytest.raises(hp.ParameterError, match="has 2 parts; the key of this query is k"):
        query.plot(key=("a", "b"))
    with pytest.raises(hp.ParameterError, match="start must be before end"):
        query.plot(key="s-1", start=5, end=5)
    with pytest.raises(hp.ParameterError, match=r"ends in no kind of picture; there are: .*png"):
        query.plot(key="s-1", path=tmp_path / "x.doc")
    with pytest.raises(hp.DataError, match="nothing to draw"):
        hp.from_arrow(pa.table({"t": pa.array([], pa.int64())}), time="t").plot()
    assert list(tmp_path.iterdir()) == [] and plt.get_fignums() == []


def test_without_matplotlib_the_error_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import pyarrow as pa, hydrophone as hp\n"
        "hp.from_arrow(pa.table({'t': [1], 'v': [1.0]}), time='t').plot()\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert "plot: Matplotlib is not installed" in result.stderr and "hydrophone[plot]" in result.stderr
