"""Spectra: methods of `UniformSignal` that window, weigh and transform, and of `Windowed` that go on from there."""

from __future__ import annotations

import functools
from fractions import Fraction
from typing import Any, Generic, Self

import numpy as np
import numpy.typing as npt

from hydrophone.api.quantities import Extent, frequency, sample_count
from hydrophone.api.query import Query, UniformT, WindowedT, check_query
from hydrophone.errors import ParameterError, PlanError, SignalTypeError, user_line
from hydrophone.model.time import Duration, duration, period, scalar
from hydrophone.ops.filters.rolling import Rolling
from hydrophone.ops.spectra.bands import MelBands, OctaveBands, band_sum, check_spectrum, frequencies, rate_of
from hydrophone.ops.spectra.shift_frequency import ShiftFrequency, exact_cycles
from hydrophone.ops.spectra.sliding_dft import SlidingDft
from hydrophone.ops.windows import combine_windows as pairs
from hydrophone.ops.windows.arrays import Multiply
from hydrophone.ops.windows.averages import Average, EmaWindows
from hydrophone.ops.windows.overlap_add import OverlapAdd
from hydrophone.ops.windows.reduce import Reduce
from hydrophone.ops.windows.tapers import dual, one_sided, taper
from hydrophone.ops.windows.transforms import Ifft, Irfft
from hydrophone.plan.parameters import real

_REAL = np.dtype(float)
Array = npt.NDArray[Any]


class WindowSpectra(Query, Generic[UniformT]):
    """Methods of `Windowed`."""

    def istft(self, window: Any = "hann") -> UniformT:
        """Samples from the spectra of ``stft(size, hop=hop, window=window)``: ``scipy.signal.ShortTimeFFT.istft``.

        Every sample that all its windows cover comes back as it was. Where some are missing (the first and last ``size - hop`` samples,
        and those beside holes) it comes back weaker; ``stft(..., missing="zero")`` has all windows, and what they reach beyond the
        samples comes back too, as zeros up to rounding.
        """
        kind = self.node.type
        one_sided = kind.length == kind.size // 2 + 1 and not kind.two_sided
        made: Any = self._then(Irfft if one_sided else Ifft)
        weights = dual(taper(window, kind.size, "istft"), kind.hop)
        back: Query = made._then(Multiply, weights=weights, single=True)
        return back._then(OverlapAdd)

    def mel_bands(self, count: int, *, low: float | str = 0.0, high: float | str | None = None) -> Self:
        """The power of a spectrum in triangular bands, equally wide on the mel scale from `low` to `high` (hertz, or ``"1kHz"``)."""
        top = rate_of(self.node.type, "mel_bands") / 2 if high is None else frequency(high, "mel_bands: high")
        return self._then(MelBands, count=count, low=frequency(low, "mel_bands: low"), high=top)

    def octave_bands(self, fraction: int = 1) -> Self:
        """The power of a spectrum in octaves around 1 kHz, or in thirds of them with ``fraction=3``."""
        return self._then(OctaveBands, fraction=fraction)

    def frequencies(self) -> Array:
        """The frequency of every value of a spectrum, in hertz: ``numpy.fft.rfftfreq``, or ``fftfreq`` of a whole spectrum.

        Examples
        --------
        >>> import hydrophone as hp, numpy as np
        >>> hp.from_numpy(np.zeros(16), rate="1kHz").spectrogram(8).frequencies().tolist()
        [0.0, 125.0, 250.0, 375.0, 500.0]
        """
        return frequencies(self.node.type)

    def band_power(self, low: float | str, high: float | str, *, scaling: str = "density", at: str = "end") -> UniformT:
        """The power between two frequencies (in hertz, or as ``"1kHz"``), both included: one value per window.

        Of a ``"density"`` (what `welch` and `spectrogram` give) it is the sum of the lines in the band times their spacing, of a
        ``"spectrum"`` the sum.

        Examples
        --------
        >>> import hydrophone as hp, numpy as np
        >>> tone = np.sqrt(2) * np.sin(2 * np.pi * 125 * np.arange(800) / 1000)
        >>> spectra = hp.from_numpy(tone, rate="1kHz").welch(200)
        >>> [round(v, 3) for v in spectra.band_power(100, 150).to_arrow()["value"].to_pylist()]
        [1.0]
        """
        check_spectrum(self.node.type, "band_power")
        least, most = frequency(low, "band_power: low"), frequency(high, "band_power: high")
        lines = self.frequencies()
        spacing = float(lines[1]) if len(lines) > 1 else rate_of(self.node.type, "band_power")
        first, stop = int(np.searchsorted(lines, least)), int(np.searchsorted(lines, most, "right"))
        if not 0 <= least <= most or first == stop:
            raise ParameterError(
                f"band_power: no line of the spectrum lies between {least:g} and {most:g} Hz; lines lie every {spacing:g} Hz up to "
                f"{lines[-1]:g} Hz",
                hint="longer windows have more lines",
                where=user_line(),
            )
        if scaling not in ("density", "spectrum"):
            raise ParameterError(
                f"band_power: scaling must be 'density' or 'spectrum', got {scaling!r}", where=user_line()
            )
        width = spacing if scaling == "density" else 1.0
        return self._then(Reduce, function=functools.partial(band_sum, first=first, stop=stop, width=width), at=at)

    def average(self, count: int | None = None) -> Self:
        """The mean of every `count` windows that follow each other, value by value; without a number that of all, at the end."""
        return self._then(Average, count=count)

    def ema(self, alpha: float) -> Self:
        """Exponential moving average over windows, value by value."""
        return self._then(EmaWindows, alpha=alpha)

    def gcc_phat(self, other: Self) -> Self:
        """Correlation with another signal, with a spectrum made flat: ``2 * n - 1`` lags from ``1 - n`` on, and a sharp peak."""
        check_query(other, "gcc_phat")
        if any(getattr(w.node.type, "dtype", _REAL).kind == "c" for w in (self, other)):
            raise SignalTypeError(
                "gcc_phat: the windows are complex", hint="it takes the samples themselves", where=user_line()
            )
        return self._then(pairs.CombineWindows, other, function=pairs.phat, what="gcc_phat")


class Spectra(Query, Generic[WindowedT]):
    """Methods of `UniformSignal`."""

    def stft(
        self, size: Extent, *, hop: Extent | None = None, window: Any = "hann", missing: str = "drop"
    ) -> WindowedT:
        """Spectra of weighed windows, by default half overlapping: ``scipy.signal.ShortTimeFFT`` without its phase shift.

        One-sided for real signals. Windows lie on the absolute grid; at the borders and beside holes only whole windows count, or
        with ``missing="zero"`` all, filled with zeros.
        """
        cut = self._halves(size, hop, missing, "stft").taper(window)
        return cut.fft() if self.node.type.dtype.kind == "c" else cut.rfft()

    def sliding_dft(self, size: Extent, *, hop: Extent = 1) -> WindowedT:
        """The spectrum of the last `size` samples after every few samples: ``window(size, hop=hop).rfft()``, cheaper for hops up to 4."""
        span = sample_count(size, self.node.type, "sliding_dft: size")
        step = sample_count(hop, self.node.type, "sliding_dft: hop")
        return self._then(SlidingDft, size=span, hop=step)

    def spectrogram(
        self,
        size: Extent,
        *,
        hop: Extent | None = None,
        window: Any = "hann",
        scaling: str = "density",
        detrend: str | None = "constant",
        missing: str = "drop",
    ) -> WindowedT:
        """Power of every window by frequency: ``scipy.signal.spectrogram(x, fs, window, size, size - hop)``.

        ``"density"`` is power per hertz, ``"spectrum"`` power; `detrend` is ``"constant"``, ``"linear"`` or None.
        """
        spectra: Any = self._lines(size, hop, window, detrend, missing, "spectrogram")
        return self._scaled(spectra.power(), window, scaling, "spectrogram")

    def welch(
        self,
        size: Extent,
        *,
        average: int | None = None,
        alpha: float | None = None,
        hop: Extent | None = None,
        window: Any = "hann",
        scaling: str = "density",
        detrend: str | None = "constant",
    ) -> WindowedT:
        """The power spectrum of the whole signal: ``scipy.signal.welch(x, fs, window, size, size - hop)``; or a running estimate of it.

        With `average` it is that of every so many windows, which lie on the absolute grid and lack no sample, and with `alpha` an
        exponential mean with this weight. Streams need one of them: what is whole comes at the end.

        Windows lie on the absolute grid too: SciPy's are the same where the first sample lies on a multiple of the hop.

        Examples
        --------
        >>> import hydrophone as hp, numpy as np, scipy.signal
        >>> x = np.random.default_rng(7).normal(size=1000)
        >>> found = hp.from_numpy(x, rate="100Hz").welch(128).to_arrow()["values"][0].as_py()
        >>> bool(np.allclose(found, scipy.signal.welch(x, 100, nperseg=128)[1]))
        True
        """
        lines = self.spectrogram(size, hop=hop, window=window, scaling=scaling, detrend=detrend)
        return _averaged(lines, average, alpha, "welch")

    def csd(
        self,
        other: Self,
        size: Extent,
        *,
        average: int | None = None,
        alpha: float | None = None,
        hop: Extent | None = None,
        window: Any = "hann",
        scaling: str = "density",
        detrend: str | None = "constant",
    ) -> WindowedT:
        """A running estimate of the cross power spectrum, as `welch`: ``scipy.signal.csd(x, y, fs, window, size, size - hop)``."""
        mine, its = self._both_lines(other, size, hop, window, detrend, "csd")
        cross = mine._then(pairs.CombineWindows, its, function=pairs.cross_spectrum, what="csd")
        return _averaged(self._scaled(cross, window, scaling, "csd"), average, alpha, "csd")

    def coherence(
        self,
        other: Self,
        size: Extent,
        *,
        average: int | None = None,
        alpha: float | None = None,
        hop: Extent | None = None,
        window: Any = "hann",
        detrend: str | None = "constant",
    ) -> WindowedT:
        """How much two signals agree at every frequency, 0 to 1: ``abs(csd) ** 2 / (welch * welch)``, as ``scipy.signal.coherence``."""
        mine, its = self._both_lines(other, size, hop, window, detrend, "coherence")
        cross = mine._then(pairs.CombineWindows, its, function=pairs.cross_spectrum, what="coherence")
        a, b, both = (_averaged(w, average, alpha, "coherence") for w in (mine.power(), its.power(), cross))
        part: Query = both._then(pairs.CombineWindows, a, function=pairs.squared_over, what="coherence")
        return part._then(pairs.CombineWindows, b, function=pairs.over, what="coherence")

    def shift_frequency(self, frequency: float | str) -> Self:
        """Move the spectrum up by a frequency (in hertz): times ``exp(2j * pi * frequency * t)``, t from the origin of the grid."""
        return self._then(ShiftFrequency, cycles=self._cycles(frequency, "shift_frequency"))

    def goertzel(self, frequency: float | str, size: Extent, *, hop: Extent | None = None) -> Self:
        """One line of the spectrum of the last `size` samples, at any frequency in hertz: ``sum(x * exp(-2j * pi * f * n / fs))``.

        Any below half the rate, that is, and above minus half: what lies beyond has the samples of a tone in between.

        The samples are turned down to frequency 0, where a rolling sum takes the place of Goertzel's recursion: it costs as little,
        and keeps no rounding from one window to the next. Start, gap and end are those of a rolling sum.
        """
        cycles = self._cycles(frequency, "goertzel")
        if not abs(cycles) < Fraction(1, 2):
            half = rate_of(self.node.type, "goertzel") / 2
            raise ParameterError(
                f"goertzel: the frequency must be below half the rate ({half:g} Hz), got {frequency!r}",
                hint="samples cannot tell such a tone from a slower one",
                where=user_line(),
            )
        span = sample_count(size, self.node.type, "goertzel: size")
        step = span if hop is None else sample_count(hop, self.node.type, "goertzel: hop")
        turned: Query = self._then(ShiftFrequency, cycles=-cycles, double=True)
        summed: Query = turned._then(Rolling, kind="sum", size=span, hop=step)
        # Sample m of the result belongs to the window that begins at m * step + begin.
        begin = (span - 1) % step - span + 1
        return summed._then(ShiftFrequency, cycles=cycles * step % 1, phase=cycles * begin % 1)

    def gcc_phat(
        self,
        other: Self,
        size: Extent,
        *,
        hop: Extent | None = None,
        max_delay: Duration | None = None,
        at: str = "end",
    ) -> Self:
        """By how many seconds this signal comes later than another, per window: the lag at which `Windowed.gcc_phat` peaks.

        Lags go up to `max_delay` (by default the window). The first of equal peaks counts; silence and NaN give NaN.
        """
        _check_signal(other, "gcc_phat")
        signals: tuple[Any, Any] = (self, other)
        mine, its = (s.window(size, hop=hop) for s in signals)
        both = mine.gcc_phat(its)
        timebase, n = self.node.type.timebase, mine.node.type.size
        if timebase is None:
            raise PlanError("gcc_phat: needs one period for all keys", where=user_line())
        most = n - 1 if max_delay is None else int(duration(max_delay) / timebase.period)
        if not 0 <= most < n:
            raise ParameterError(
                f"gcc_phat: max_delay must be shorter than the window of {n} samples, got {max_delay!r}",
                where=user_line(),
            )
        lags = both.select(range(n - 1 - most, n + most))
        seconds = float(timebase.period / 10**9)
        return lags._then(Reduce, function=functools.partial(peak_lag, unit=seconds), at=at)

    # --- what they share --------------------------------------------------------------------------------------------------

    def _halves(self, size: Extent, hop: Extent | None, missing: str, what: str) -> Any:
        span = sample_count(size, self.node.type, f"{what}: size")
        step = max(span // 2, 1) if hop is None else hop
        signal: Any = self
        return signal.window(span, hop=step, missing=missing)

    def _lines(
        self, size: Extent, hop: Extent | None, window: Any, detrend: str | None, missing: str, what: str
    ) -> Any:
        cut = self._halves(size, hop, missing, what)
        cut = cut.detrend(detrend) if detrend else cut
        cut = cut.taper(window)
        return cut.fft() if self.node.type.dtype.kind == "c" else cut.rfft()

    def _both_lines(
        self, other: Self, size: Extent, hop: Extent | None, window: Any, detrend: str | None, what: str
    ) -> tuple[Any, Any]:
        _check_signal(other, what)
        if (self.node.type.dtype.kind == "c") != (other.node.type.dtype.kind == "c"):
            raise SignalTypeError(
                f"{what}: one signal is complex and the other real",
                hint="take real(), or multiply by 1 + 0j",
                where=user_line(),
            )
        mine, its = (s._lines(size, hop, window, detrend, "drop", what) for s in (self, other))
        return mine, its

    def _scaled(self, spectra: Any, window: Any, scaling: str, what: str) -> WindowedT:
        kind = spectra.node.type
        weights = np.asarray(taper(window, kind.size, what, real=True))
        if scaling not in ("density", "spectrum"):
            raise ParameterError(f"{what}: scaling must be 'density' or 'spectrum', got {scaling!r}", where=user_line())
        density = scaling == "density"
        scale = 1 / (rate_of(kind, what) * (weights**2).sum()) if density else 1 / weights.sum() ** 2
        lines = np.ones(kind.size) if self.node.type.dtype.kind == "c" else one_sided(kind.size)
        return spectra._then(Multiply, weights=tuple((lines * scale).tolist()), single=True)

    def _cycles(self, frequency: float | str, what: str) -> Fraction:
        timebase = self.node.type.timebase
        if timebase is None:
            raise PlanError(
                f"{what}: needs one period for all keys",
                hint="resample(period, fill=hp.linear()) gives all keys one",
                where=user_line(),
            )
        if isinstance(frequency, str):
            return exact_cycles(timebase.period / period(frequency))
        exact = scalar(frequency)
        if not np.isfinite(real(exact, f"{what}: the frequency", 'a number of Hz or a text such as "1kHz"')):
            raise ParameterError(f"{what}: the frequency must be finite, got {frequency!r}", where=user_line())
        return exact_cycles(
            Fraction(exact.item() if isinstance(exact, np.generic) else exact) * timebase.period / 10**9
        )


def _check_signal(other: Any, what: str) -> None:
    check_query(other, what)
    if not isinstance(other, Spectra):
        raise SignalTypeError(
            f"{what}: the other side must be a uniform signal, got {other.node.type.describe()}", where=user_line()
        )


def _averaged(lines: Any, average: int | None, alpha: float | None, what: str) -> Any:
    if average is not None and alpha is not None:
        raise ParameterError(
            f"{what}: give either average or alpha, or neither",
            hint="average=8: the mean of every 8 windows; alpha=0.1: an exponential one after every window; neither: the mean of all",
            where=user_line(),
        )
    return lines.average(average) if alpha is None else lines.ema(alpha)


def peak_lag(windows: np.ndarray[Any, Any], unit: float) -> np.ndarray[Any, Any]:
    """Where every row is largest, counted from its middle, in units."""
    at = np.argmax(windows, axis=1) - windows.shape[1] // 2
    good = np.isfinite(windows).all(axis=1) & (windows != 0).any(axis=1)
    return np.where(good, at * unit, np.nan)
