"""Detectors: what stands out in a signal, as scores, intervals and points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hydrophone.errors import ParameterError
from hydrophone.handles.floats import in_floats
from hydrophone.handles.lengths import samples
from hydrophone.handles.zero_phase import ZeroPhase
from hydrophone.ops.arrays import refuse_complex
from hydrophone.ops.peaks import FindPeaks
from hydrophone.ops.triggers import Trigger, ZeroCrossings
from hydrophone.time import Duration, duration

if TYPE_CHECKING:
    from hydrophone.handles.stream import Stream
    from hydrophone.handles.uniform import UniformSignal


class Detectors(ZeroPhase):
    """Methods of `UniformSignal`. Sizes are in samples, or durations that are whole multiples of the period."""

    def trigger(self, on: float, off: float, *, report: Duration | None = None) -> Stream:
        """Intervals from the first sample above `on` to the first below `off`; `report` cuts long ones as in `above`.

        Start: no interval is open. Gap: a missing sample ends an interval, and so does NaN; the next one begins only above `on`. So does
        every hole in a score whose windows lack a sample. End: the end of the data ends an interval after its last sample.

        Examples
        --------
        >>> import pyarrow as pa, hydrophone as hp
        >>> rows = pa.table({"t": [0, 10, 20, 40, 50], "v": [5.0, 3.0, 3.0, 3.0, 5.0]})  # 30 is lost
        >>> found = hp.from_arrow(rows, time="t").signal("v").sample(10).trigger(on=4, off=2)
        >>> found.select("samples").to_arrow().to_pylist()
        [{'t': 0, 'end': 30, 'samples': 3}, {'t': 50, 'end': 60, 'samples': 1}]
        """
        cut = None if report is None else duration(report)
        return self._then(Trigger, on=float(on), off=float(off), report=cut)

    def zero_crossings(self) -> Stream:
        """Points where the signal changes its sign, and whether it is `rising`."""
        return self._then(ZeroCrossings)

    def find_peaks(
        self,
        height: float | None = None,
        *,
        distance: int | str = 1,
        prominence: float | None = None,
        within: int | str = 0,
    ) -> Stream:
        """Points at samples above all that are up to `distance` samples away, of some `height` and `prominence`.

        `within` says how many samples to look on either side for the foot of a peak (SciPy's ``wlen = 2 * within + 1``).
        Peaks come as late as their last neighbour, with their own time.

        What differs from ``scipy.signal.find_peaks``: of a plateau this gives the first sample, SciPy the middle. SciPy keeps peaks
        `distance` apart by removing lower ones, and one removal can decide the next, any number of samples away; here a peak is decided by
        its neighbours alone, as in ``scipy.signal.argrelmax(x, order=distance)``, so that of two within `distance` only the higher one
        (of equals the first) can be a peak. `prominence` is SciPy's, with that ``wlen``.

        Start, gap and end: a sample with fewer neighbours than `distance` (and `within`) on either side is no peak. NaN is no peak, and
        what has NaN within `distance` is none. Columns: `height`, and `prominence` where it is asked for.
        """
        near = samples(distance, self.node.type, "find_peaks: distance")
        far = samples(within, self.node.type, "find_peaks: within")
        return self._then(FindPeaks, height=_real(height), distance=near, prominence=_real(prominence), within=far)

    def sta_lta(self, short: int | str, long: int | str, *, recursive: bool = False) -> UniformSignal:
        """The mean energy of the last `short` samples over that of the last `long` ones: far above one where something begins.

        Classic: ``mean(w[-short:] ** 2) / mean(w ** 2)`` over every `w` of `long` samples in a row; nothing until there are
        so many (start and gap). Recursive: both means are `ema` with ``alpha = 1 / size``, which start with the first
        sample and fade through holes. End: nothing follows the last sample. In perfect silence both are 0 / 0, which is NaN
        and triggers nothing.
        """
        few = samples(short, self.node.type, "sta_lta: short")
        many = samples(long, self.node.type, "sta_lta: long")
        if not 1 <= few < many:
            raise ParameterError(
                f"sta_lta: short must be at least 1 sample and below long, got {few} and {many}",
                hint="short is about as long as what is looked for, long about as long as what the noise takes to change",
            )
        if recursive:
            size: UniformSignal = in_floats(self).magnitude()
            energy = size * size
            return energy.ema(1 / few) / energy.ema(1 / many)
        return self.moving_energy(few) / self.moving_energy(many) * (many / few)

    def cfar_score(self, *, cells: int | str = 64, guard: int | str = 0, noise: str = "gaussian") -> UniformSignal:
        """How far a sample stands out from the noise around it, whatever the level of the noise.

        ``"gaussian"``: standard deviations above the mean, both of the `cells` samples before it (less the `guard` nearest
        ones): the on-line form, without delay. ``"average"``: the sample over the mean of the `cells` samples before and as
        many after it (less the `guard` nearest ones on either side); for energies, and as late as the last of these samples.

        Start, gap and end: samples whose cells are not all there give nothing. Noise that is exactly constant (or zero)
        divides by zero: any sample above it is infinitely far out, and an equal one gives NaN, which no detector counts.
        """
        refuse_complex("cfar", self.node.type.dtype, "take magnitude() first, or its square")
        count = samples(cells, self.node.type, "cfar: cells")
        near = samples(guard, self.node.type, "cfar: guard")
        if count < 1 or near < 0:
            raise ParameterError(f"cfar: cells must be at least 1 sample and guard at least 0, got {count} and {near}")
        before = self.moving_mean(count).shift(near + 1)
        if noise == "gaussian":
            return (self - before) / self.moving_std(count).shift(near + 1)
        if noise == "average":
            return self / ((before + self.moving_mean(count).shift(-near - count)) * 0.5)
        raise ParameterError(f"cfar: noise must be one of 'gaussian', 'average', got {noise!r}")

    def cfar(
        self,
        threshold: float,
        *,
        cells: int | str = 64,
        guard: int | str = 0,
        noise: str = "gaussian",
        report: Duration | None = None,
    ) -> Stream:
        """Intervals in which `cfar_score` is above a threshold: detection at a constant rate of false alarms. `peak` is a score."""
        return self.cfar_score(cells=cells, guard=guard, noise=noise).above(threshold, report=report)


def _real(value: Any) -> float | None:
    return None if value is None else float(value)
