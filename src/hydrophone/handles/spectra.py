"""Spectra: methods of `UniformSignal` that window, weigh and transform, and of `Windowed` that go on from there."""

from __future__ import annotations

import functools
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from hydrophone.errors import ParameterError, PlanError, SignalTypeError, user_line
from hydrophone.handles.query import Query
from hydrophone.ops import pairs
from hydrophone.ops.arrays import Multiply
from hydrophone.ops.averages import Average, EmaWindows
from hydrophone.ops.bands import MelBands, OctaveBands, rate_of
from hydrophone.ops.frequency import ShiftFrequency, exact_cycles
from hydrophone.ops.overlap_add import OverlapAdd
from hydrophone.ops.reduce import Reduce
from hydrophone.ops.rolling import Rolling
from hydrophone.ops.sliding_dft import SlidingDft
from hydrophone.ops.tapers import dual, one_sided, taper
from hydrophone.time import Duration, duration, period

if TYPE_CHECKING:
    from hydrophone.handles.uniform import UniformSignal
    from hydrophone.handles.windowed import Windowed


class WindowSpectra(Query):
    """Methods of `Windowed`."""

    def istft(self, window: Any = "hann") -> UniformSignal:
        """Samples from the spectra of ``stft(size, hop=hop, window=window)``: ``scipy.signal.ShortTimeFFT.istft``.

        Every sample that all its windows cover comes back as it was. Where some are missing (the first and last ``size - hop`` samples,
        and those beside holes) it comes back weaker; ``stft(..., missing="zero")`` has all windows, and what they reach beyond the
        samples comes back too, as zeros up to rounding.
        """
        kind = self.node.type
        made: Any = self.irfft() if kind.length == kind.size // 2 + 1 else self.ifft()  # type: ignore[attr-defined]
        weights = dual(taper(window, kind.size, "istft"), kind.hop)
        back: Query = made._then(Multiply, weights=weights, single=True)
        return back._then(OverlapAdd)

    def mel_bands(self, count: int, *, low: float = 0.0, high: float | None = None) -> Windowed:
        """The power of a spectrum in triangular bands, equally wide on the mel scale from `low` to `high` hertz."""
        top = rate_of(self.node.type, "mel_bands") / 2 if high is None else float(high)
        return self._then(MelBands, count=int(count), low=float(low), high=top)

    def octave_bands(self, fraction: int = 1) -> Windowed:
        """The power of a spectrum in octaves around 1 kHz, or in thirds of them with ``fraction=3``."""
        return self._then(OctaveBands, fraction=int(fraction))

    def average(self, count: int) -> Windowed:
        """The mean of every `count` windows that follow each other, value by value."""
        return self._then(Average, count=int(count))

    def ema(self, alpha: float) -> Windowed:
        """Exponential moving average over windows, value by value."""
        return self._then(EmaWindows, alpha=float(alpha))

    def gcc_phat(self, other: Windowed) -> Windowed:
        """Correlation with another signal, with a spectrum made flat: ``2 * n - 1`` lags from ``1 - n`` on, and a sharp peak."""
        if any(w.node.type.dtype.kind == "c" for w in (self, other)):
            raise SignalTypeError(
                "gcc_phat: the windows are complex", hint="it takes the samples themselves", where=user_line()
            )
        return self._then(pairs.CombineWindows, other, function=pairs.phat, what="gcc_phat")


class Spectra(Query):
    """Methods of `UniformSignal`."""

    def stft(
        self, size: int | str, *, hop: int | str | None = None, window: Any = "hann", missing: str = "drop"
    ) -> Windowed:
        """Spectra of weighed windows, by default half overlapping: ``scipy.signal.ShortTimeFFT`` without its phase shift.

        One-sided for real signals. Windows lie on the absolute grid; at the borders and beside holes only whole windows count, or
        with ``missing="zero"`` all, filled with zeros.
        """
        cut = self._halves(size, hop, missing, "stft").taper(window)
        return cut.fft() if self.node.type.dtype.kind == "c" else cut.rfft()

    def sliding_dft(self, size: int | str, *, hop: int | str = 1) -> Windowed:
        """The spectrum of the last `size` samples after every few samples: ``window(size, hop=hop).rfft()``, cheaper for hops up to 4."""
        span = self._samples(size, "size", "sliding_dft")  # type: ignore[attr-defined]
        step = self._samples(hop, "hop", "sliding_dft")  # type: ignore[attr-defined]
        return self._then(SlidingDft, size=span, hop=step)

    def spectrogram(
        self,
        size: int | str,
        *,
        hop: int | str | None = None,
        window: Any = "hann",
        scaling: str = "density",
        detrend: str | None = "constant",
        missing: str = "drop",
    ) -> Windowed:
        """Power of every window by frequency: ``scipy.signal.spectrogram(x, fs, window, size, size - hop)``.

        ``"density"`` is power per hertz, ``"spectrum"`` power; `detrend` is ``"constant"``, ``"linear"`` or None.
        """
        spectra: Any = self._lines(size, hop, window, detrend, missing, "spectrogram")
        return self._scaled(spectra.power(), window, scaling, "spectrogram")

    def welch(
        self,
        size: int | str,
        *,
        average: int | None = None,
        alpha: float | None = None,
        hop: int | str | None = None,
        window: Any = "hann",
        scaling: str = "density",
        detrend: str | None = "constant",
    ) -> Windowed:
        """A running estimate of the power spectrum: the mean of every `average` windows, or an exponential one with weight `alpha`.

        The first is ``scipy.signal.welch(x, fs, window, size, size - hop)`` over the samples under each group of windows; groups lie on the
        absolute grid and lack no sample.
        """
        lines = self.spectrogram(size, hop=hop, window=window, scaling=scaling, detrend=detrend)
        return _averaged(lines, average, alpha, "welch")

    def csd(
        self,
        other: UniformSignal,
        size: int | str,
        *,
        average: int | None = None,
        alpha: float | None = None,
        hop: int | str | None = None,
        window: Any = "hann",
        scaling: str = "density",
        detrend: str | None = "constant",
    ) -> Windowed:
        """A running estimate of the cross power spectrum, as `welch`: ``scipy.signal.csd(x, y, fs, window, size, size - hop)``."""
        mine, its = self._both_lines(other, size, hop, window, detrend, "csd")
        cross = mine._then(pairs.CombineWindows, its, function=pairs.cross_spectrum, what="csd")
        return _averaged(self._scaled(cross, window, scaling, "csd"), average, alpha, "csd")

    def coherence(
        self,
        other: UniformSignal,
        size: int | str,
        *,
        average: int | None = None,
        alpha: float | None = None,
        hop: int | str | None = None,
        window: Any = "hann",
        detrend: str | None = "constant",
    ) -> Windowed:
        """How much two signals agree at every frequency, 0 to 1: ``abs(csd) ** 2 / (welch * welch)``, as ``scipy.signal.coherence``."""
        mine, its = self._both_lines(other, size, hop, window, detrend, "coherence")
        cross = mine._then(pairs.CombineWindows, its, function=pairs.cross_spectrum, what="coherence")
        a, b, both = (_averaged(w, average, alpha, "coherence") for w in (mine.power(), its.power(), cross))
        part: Query = both._then(pairs.CombineWindows, a, function=pairs.squared_over, what="coherence")
        return part._then(pairs.CombineWindows, b, function=pairs.over, what="coherence")

    def shift_frequency(self, frequency: float | str) -> UniformSignal:
        """Move the spectrum up by a frequency (in hertz): times ``exp(2j * pi * frequency * t)``, t from the origin of the grid."""
        return self._then(ShiftFrequency, cycles=self._cycles(frequency, "shift_frequency"))

    def goertzel(self, frequency: float | str, size: int | str, *, hop: int | str | None = None) -> UniformSignal:
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
        span = self._samples(size, "size", "goertzel")  # type: ignore[attr-defined]
        step = span if hop is None else self._samples(hop, "hop", "goertzel")  # type: ignore[attr-defined]
        turned: Query = self._then(ShiftFrequency, cycles=-cycles)
        summed: Query = turned._then(Rolling, kind="sum", size=span, hop=step)
        # Sample m of the result belongs to the window that begins at m * step + begin.
        begin = (span - 1) % step - span + 1
        return summed._then(ShiftFrequency, cycles=cycles * step % 1, phase=cycles * begin % 1)

    def gcc_phat(
        self,
        other: UniformSignal,
        size: int | str,
        *,
        hop: int | str | None = None,
        max_delay: Duration | None = None,
        at: str = "end",
    ) -> UniformSignal:
        """By how many seconds this signal comes later than another, per window: the lag at which `Windowed.gcc_phat` peaks.

        Lags go up to `max_delay` (by default the window). The first of equal peaks counts; silence and NaN give NaN.
        """
        mine, its = (s.window(size, hop=hop) for s in (self, other))  # type: ignore[attr-defined]
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

    def _halves(self, size: int | str, hop: int | str | None, missing: str, what: str) -> Any:
        span = self._samples(size, "size", what)  # type: ignore[attr-defined]
        step = max(span // 2, 1) if hop is None else hop
        return self.window(span, hop=step, missing=missing)  # type: ignore[attr-defined]

    def _lines(
        self, size: int | str, hop: int | str | None, window: Any, detrend: str | None, missing: str, what: str
    ) -> Any:
        cut = self._halves(size, hop, missing, what)
        cut = cut.detrend(detrend) if detrend else cut
        cut = cut.taper(window)
        return cut.fft() if self.node.type.dtype.kind == "c" else cut.rfft()

    def _both_lines(
        self, other: Spectra, size: int | str, hop: int | str | None, window: Any, detrend: str | None, what: str
    ) -> tuple[Any, Any]:
        if (self.node.type.dtype.kind == "c") != (other.node.type.dtype.kind == "c"):
            raise SignalTypeError(
                f"{what}: one signal is complex and the other real",
                hint="take real(), or multiply by 1 + 0j",
                where=user_line(),
            )
        mine, its = (s._lines(size, hop, window, detrend, "drop", what) for s in (self, other))
        return mine, its

    def _scaled(self, spectra: Any, window: Any, scaling: str, what: str) -> Windowed:
        kind = spectra.node.type
        weights = np.asarray(taper(window, kind.size, what))
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
                f"{what}: needs one period for all keys", hint="sample to a common period first", where=user_line()
            )
        if isinstance(frequency, str):
            return exact_cycles(timebase.period / period(frequency))
        if not np.isfinite(frequency):
            raise ParameterError(f"{what}: the frequency must be finite, got {frequency!r}", where=user_line())
        return exact_cycles(Fraction(frequency) * timebase.period / 10**9)


def _averaged(lines: Any, average: int | None, alpha: float | None, what: str) -> Windowed:
    if (average is None) == (alpha is None):
        raise ParameterError(
            f"{what}: give either average or alpha",
            hint="average=8: the mean of every 8 windows; alpha=0.1: an exponential one after every window",
            where=user_line(),
        )
    made: Windowed = lines.average(average) if average is not None else lines.ema(alpha)
    return made


def peak_lag(windows: np.ndarray[Any, Any], unit: float) -> np.ndarray[Any, Any]:
    """Where every row is largest, counted from its middle, in units."""
    at = np.argmax(windows, axis=1) - windows.shape[1] // 2
    good = np.isfinite(windows).all(axis=1) & (windows != 0).any(axis=1)
    return np.where(good, at * unit, np.nan)
