"""Detectors: what stands out in a signal, as scores, intervals and points."""

from __future__ import annotations

from typing import Any, Generic, Self

from hydrophone.api.quantities import Extent, sample_count
from hydrophone.api.query import StreamT
from hydrophone.api.zero_phase import ZeroPhase
from hydrophone.errors import ParameterError
from hydrophone.model.time import Duration, duration
from hydrophone.ops.detectors.find_peaks import FindPeaks
from hydrophone.ops.detectors.trigger import Trigger
from hydrophone.ops.detectors.zero_crossings import ZeroCrossings
from hydrophone.ops.windows.refusals import refuse_complex


class Detectors(ZeroPhase, Generic[StreamT]):
    """Methods of `UniformSignal`. Sizes are in samples, or durations that are whole multiples of the period."""

    def trigger(self, on: float, off: float, *, report: Duration | None = None) -> StreamT:
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
        return self._then(Trigger, on=on, off=off, report=cut)

    def zero_crossings(self) -> StreamT:
        """Points where the signal changes its sign, and whether it is `rising`."""
        return self._then(ZeroCrossings)

    def find_peaks(
        self,
        height: float | None = None,
        *,
        distance: Extent = 1,
        prominence: float | None = None,
        within: Extent = 0,
        plateau: Extent = 1000,
    ) -> StreamT:
        """Points at samples above all that are up to `distance` samples away, of some `height` and `prominence`.

        `within` says how many samples to look on either side for the foot of a peak (SciPy's ``wlen = 2 * within + 1``).
        Peaks come as late as their last neighbour, or the end of their plateau, with their own time.

        Equal samples in a row are a plateau: a peak at its first sample where the signal falls after it, and none where it rises further.
        One of more than `plateau` samples is no peak.

        What differs from ``scipy.signal.find_peaks``: of a plateau this gives the first sample, SciPy the middle. SciPy keeps peaks
        `distance` apart by removing lower ones, and one removal can decide the next, any number of samples away; here a peak is decided by
        its neighbours alone, as in ``scipy.signal.argrelmax(x, order=distance)``, so that of two within `distance` only the higher one
        (of equals the first) can be a peak. `prominence` is SciPy's, with that ``wlen``.

        Start, gap and end: a sample with fewer neighbours than `distance` (and `within`) on either side is no peak, and neither is
        a plateau whose end is not seen. NaN is no peak, and what has NaN within `distance`, or right after its plateau, is none. Columns:
        `height`, and `prominence` where it is asked for.

        Examples
        --------
        >>> import pyarrow as pa, hydrophone as hp
        >>> rows = pa.table({"t": range(8), "v": [0, 1, 1, 2, 0, 3, 3, 0]})
        >>> hp.from_arrow(rows, time="t").signal("v").sample(1).find_peaks().to_arrow().to_pylist()
        [{'t': 3, 'height': 2.0}, {'t': 5, 'height': 3.0}]
        """
        near = sample_count(distance, self.node.type, "find_peaks: distance")
        far = sample_count(within, self.node.type, "find_peaks: within")
        flat = sample_count(plateau, self.node.type, "find_peaks: plateau")
        bounds = {"height": height, "prominence": prominence}
        return self._then(FindPeaks, **bounds, distance=near, within=far, plateau=flat)

    def sta_lta(self, short: Extent, long: Extent, *, recursive: bool = False) -> Self:
        """The mean energy of the last `short` samples over that of the last `long` ones: far above one where something begins.

        Classic: ``mean(w[-short:] ** 2) / mean(w ** 2)`` over every `w` of `long` samples in a row; nothing until there are
        so many (start and gap). Recursive: both means are `ema` with ``alpha = 1 / size``, which start with the first
        sample and fade through holes. End: nothing follows the last sample. In perfect silence both are 0 / 0, which is NaN
        and triggers nothing.
        """
        few = sample_count(short, self.node.type, "sta_lta: short")
        many = sample_count(long, self.node.type, "sta_lta: long")
        if not 1 <= few < many:
            raise ParameterError(
                f"sta_lta: short must be at least 1 sample and below long, got {few} and {many}",
                hint="short is about as long as what is looked for, long about as long as what the noise takes to change",
            )
        if recursive:
            energy = self.moving_energy(1)
            return energy.ema(1 / few) / energy.ema(1 / many)
        return self.moving_energy(few) / self.moving_energy(many) * (many / few)

    def cfar_score(self, *, cells: Extent = 64, guard: Extent = 0, noise: str = "gaussian") -> Self:
        """How far a sample stands out from the noise around it, whatever the level of the noise.

        ``"gaussian"``: standard deviations above the mean, both of the `cells` samples before it (less the `guard` nearest
        ones): the on-line form, without delay. ``"average"``: the sample over the mean of the `cells` samples before and as
        many after it (less the `guard` nearest ones on either side); for energies, and as late as the last of these samples.

        Start, gap and end: samples whose cells are not all there give nothing. Noise that is exactly constant (or zero)
        divides by zero: any sample above it is infinitely far out, and an equal one gives NaN, which no detector counts.
        """
        refuse_complex("cfar", self.node.type.dtype, "take magnitude() first, or its square")
        count = sample_count(cells, self.node.type, "cfar: cells")
        near = sample_count(guard, self.node.type, "cfar: guard")
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
        cells: Extent = 64,
        guard: Extent = 0,
        noise: str = "gaussian",
        report: Duration | None = None,
    ) -> StreamT:
        """Intervals in which `cfar_score` is above a threshold: detection at a constant rate of false alarms. `peak` is a score."""
        score: Any = self.cfar_score(cells=cells, guard=guard, noise=noise)
        return score.above(threshold, report=report)
