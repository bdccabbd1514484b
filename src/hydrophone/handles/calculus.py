"""Moving along the grid, differences and parts of samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hydrophone.handles.floats import in_floats
from hydrophone.handles.lengths import rate, samples
from hydrophone.handles.query import Query
from hydrophone.ops.integrals import Integrate
from hydrophone.ops.parts import Norm, Part
from hydrophone.ops.shift import Difference, Shift
from hydrophone.plan.types import Missing
from hydrophone.time import Duration, duration

if TYPE_CHECKING:
    from hydrophone.handles.uniform import UniformSignal


class Calculus(Query):
    """Methods of `UniformSignal`."""

    def shift(self, by: int | str) -> UniformSignal:
        """Every sample so many steps (or a duration of whole steps) later; negative: earlier, as soon as it is known."""
        return self._then(Shift, samples=samples(by, self.node.type, "shift: by"))

    def difference(self, lag: int | str = 1, *, missing: str = "drop") -> UniformSignal:
        """The change from the sample `lag` steps before; ``"drop"`` or ``"zero"`` where that is missing."""
        kind = Missing.of(missing, "difference", (Missing.DROP, Missing.ZERO))
        return self._then(Difference, lag=samples(lag, self.node.type, "difference: lag"), missing=kind)

    def part(self, which: str) -> UniformSignal:
        """The ``"magnitude"``, ``"angle"``, ``"real"``, ``"imag"`` or ``"conjugate"`` of every sample."""
        return self._then(Part, which=which)

    def magnitude(self) -> UniformSignal:
        """``numpy.abs`` of every sample, channel by channel; `norm` is the length over all channels."""
        return self.part("magnitude")

    def norm(self) -> UniformSignal:
        """The length of every sample as a vector of its channels, ``numpy.linalg.norm(x, axis=1)``: one value of three axes.

        Examples
        --------
        >>> import pyarrow as pa, hydrophone as hp
        >>> rows = pa.table({"t": [0, 10], "x": [3.0, 0.0], "y": [4.0, 1.0]})
        >>> hp.from_arrow(rows, time="t").signal("x", "y").sample(10).norm().to_arrow()["value"].to_pylist()
        [5.0, 1.0]
        """
        return self._then(Norm)

    def angle(self) -> UniformSignal:
        """``numpy.angle`` of every sample, in radians."""
        return self.part("angle")

    def real(self) -> UniformSignal:
        """The real part of every sample."""
        return self.part("real")

    def imag(self) -> UniformSignal:
        """The imaginary part of every sample."""
        return self.part("imag")

    def conjugate(self) -> UniformSignal:
        """The complex conjugate of every sample."""
        return self.part("conjugate")

    def differentiate(self) -> UniformSignal:
        """The change per second since the sample before: ``numpy.diff(x) / period``, nothing after a hole."""
        per_second = rate(self.node.type, "differentiate")
        change: UniformSignal = in_floats(self, but="int64").difference()
        return change * per_second

    def integrate(self, *, reset: Duration = "gap", rule: str = "trapezoid") -> UniformSignal:
        """The integral over time in seconds, ``"trapezoid"`` or ``"rectangle"``; it begins anew after a hole.

        With a duration as `reset` it also begins anew at every multiple of it, and the query can run in slices.
        """
        return self._then(Integrate, every=None if reset == "gap" else duration(reset), rule=rule)
