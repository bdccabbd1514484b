"""Uniform signals: samples on an exact grid. The families of their operators have files of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hydrophone.engine import local
from hydrophone.handles.delays import Delays
from hydrophone.handles.detectors import Detectors
from hydrophone.handles.lengths import samples
from hydrophone.handles.own import OwnFilters
from hydrophone.handles.rates import Rates
from hydrophone.handles.reductions import Rollings
from hydrophone.handles.spectra import Spectra
from hydrophone.handles.wavelets import Wavelets
from hydrophone.ops.intervals import Above
from hydrophone.ops.rows import ToEvents
from hydrophone.ops.signals import Channel
from hydrophone.ops.windows import Window
from hydrophone.plan.types import Missing, UniformType
from hydrophone.sigseg import SigSeg
from hydrophone.time import Duration, duration

if TYPE_CHECKING:
    from hydrophone.handles.stream import Stream
    from hydrophone.handles.windowed import Windowed


class UniformSignal(
    Detectors,
    Delays,
    OwnFilters,
    Rollings,
    Spectra,
    Rates,
    Wavelets,
    of=UniformType,
):
    """Samples on an exact grid."""

    def window(self, size: int | str, *, hop: int | str | None = None, missing: str = "drop") -> Windowed:
        """Arrays of `size` samples, every `hop` samples (by default `size`); durations that are whole multiples of the period do too.

        A signal with channels gives windows with channels: what follows handles each channel by itself.
        """
        span = self._samples(size, "size")
        step = span if hop is None else self._samples(hop, "hop")
        kind = Missing.of(missing, "window", (Missing.DROP, Missing.ZERO))
        return self._then(Window, size=span, hop=step, missing=kind)

    def above(self, threshold: float, *, report: Duration | None = None) -> Stream:
        """Intervals in which the signal is above a threshold; `report` cuts long ones so that they do not hold back progress."""
        cut = None if report is None else duration(report)
        return self._then(Above, threshold=float(threshold), report=cut)

    def channel(self, number: int) -> UniformSignal:
        """One channel of a vector signal."""
        return self._then(Channel, number=number)

    def events(self, column: str = "value", *, fields: Sequence[str] = ()) -> Stream:
        """The samples as point events, to relate them with other streams; with `fields` the channels become one struct."""
        return self._then(ToEvents, column=column, fields=tuple(fields))

    def segments(self) -> Iterator[tuple[tuple[Any, ...], SigSeg]]:
        """Run in this process; every contiguous run as its key and a `SigSeg` that copies nothing.

        Examples
        --------
        >>> import pyarrow as pa, hydrophone as hp
        >>> rows = pa.table({"k": [7, 7], "t": [0, 10], "v": [1.0, 2.0]})
        >>> for key, segment in hp.from_arrow(rows, key="k", time="t").signal("v").sample(10).segments():
        ...     print(key, segment.to_numpy())
        (7,) [1. 2.]
        """
        return local.run_segments(self.node)

    def _samples(self, value: int | str, what: str, operator: str = "window") -> int:
        return samples(value, self.node.type, f"{operator}: {what}")
