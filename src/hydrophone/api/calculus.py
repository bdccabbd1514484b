"""Moving along the grid, differences and parts of samples."""

from __future__ import annotations

from typing import Self

from hydrophone.api.arithmetic import Arithmetic
from hydrophone.api.quantities import Extent, sample_count, sample_rate
from hydrophone.model.time import MAX_TIME, Duration, duration
from hydrophone.ops.filters.difference import Difference
from hydrophone.ops.filters.integrate import Integrate
from hydrophone.ops.filters.shift import Shift
from hydrophone.ops.filters.teager import Teager
from hydrophone.ops.signals.norm import Norm
from hydrophone.ops.signals.part import Part
from hydrophone.plan.types import Missing


class Calculus(Arithmetic):
    """Methods of `UniformSignal`."""

    def shift(self, by: Extent) -> Self:
        """Every sample so many steps (or a duration of whole steps) later; negative: earlier, as soon as it is known."""
        return self._then(Shift, samples=sample_count(by, self.node.type, "shift: by", most=MAX_TIME))

    def difference(self, lag: Extent = 1, *, missing: str = "drop") -> Self:
        """The change from the sample `lag` steps before; ``"drop"`` or ``"zero"`` where that is missing."""
        kind = Missing.of(missing, "difference", (Missing.DROP, Missing.ZERO))
        return self._then(Difference, lag=sample_count(lag, self.node.type, "difference: lag"), missing=kind)

    def teager(self) -> Self:
        """The Teager-Kaiser energy ``x[n]**2 - x[n - 1] * x[n + 1]``; nothing where a neighbour is missing.

        Of a tone it is the square of amplitude times frequency, so that clicks and onsets stand out. It is known when the next sample
        has come. Integers are computed as doubles.

        Examples
        --------
        >>> import pyarrow as pa, hydrophone as hp
        >>> rows = pa.table({"t": [0, 10, 20, 30], "v": [1.0, 1.0, 3.0, 1.0]})
        >>> hp.from_arrow(rows, time="t").signal("v").sample(10).teager().to_arrow()["value"].to_pylist()
        [-2.0, 8.0]
        """
        return self._then(Teager)

    def part(self, which: str) -> Self:
        """The ``"magnitude"``, ``"angle"``, ``"real"``, ``"imag"`` or ``"conjugate"`` of every sample."""
        return self._then(Part, which=which)

    def magnitude(self) -> Self:
        """``numpy.abs`` of every sample, channel by channel; `norm` is the length over all channels."""
        return self.part("magnitude")

    def norm(self) -> Self:
        """The length of every sample as a vector of its channels, ``numpy.linalg.norm(x, axis=1)``: one value of three axes.

        Examples
        --------
        >>> import pyarrow as pa, hydrophone as hp
        >>> rows = pa.table({"t": [0, 10], "x": [3.0, 0.0], "y": [4.0, 1.0]})
        >>> hp.from_arrow(rows, time="t").signal("x", "y").sample(10).norm().to_arrow()["value"].to_pylist()
        [5.0, 1.0]
        """
        return self._then(Norm)

    def angle(self) -> Self:
        """``numpy.angle`` of every sample, in radians."""
        return self.part("angle")

    def real(self) -> Self:
        """The real part of every sample."""
        return self.part("real")

    def imag(self) -> Self:
        """The imaginary part of every sample."""
        return self.part("imag")

    def conjugate(self) -> Self:
        """The complex conjugate of every sample."""
        return self.part("conjugate")

    def differentiate(self) -> Self:
        """The change per second since the sample before: ``numpy.diff(x) / period``, nothing after a hole."""
        per_second = sample_rate(self.node.type, "differentiate")
        change: Self = self._then(Difference, floats=True)
        return change * per_second

    def integrate(self, *, reset: Duration = "gap", rule: str = "trapezoid") -> Self:
        """The integral over time in seconds, ``"trapezoid"`` or ``"rectangle"``; it begins anew after a hole.

        With a duration as `reset` it also begins anew at every multiple of it, and the query can run in slices.
        """
        return self._then(
            Integrate, every=None if isinstance(reset, str) and reset == "gap" else duration(reset), rule=rule
        )
