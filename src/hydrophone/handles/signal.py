"""Signals: events of a key that never overlap, until they are sampled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narwhals as nw

from hydrophone.handles.stream import Stream
from hydrophone.ops.rows import Where
from hydrophone.ops.sampling import Fill, Sample
from hydrophone.ops.snap import Snap
from hydrophone.plan.types import SignalType
from hydrophone.time import Duration, Instant, duration, instant, period
from hydrophone.timebase import Timebase

if TYPE_CHECKING:
    from hydrophone.handles.uniform import UniformSignal


class Signal(Stream, of=SignalType):
    """A stream whose events of one key never overlap."""

    def where(self, condition: nw.Expr) -> Signal:
        """Keep the events for which a condition over their columns is true."""
        return self._then(Where, condition=condition)

    def sample(self, spacing: Duration, *, offset: Instant = 0, fill: Fill | None = None) -> UniformSignal:
        """Samples every `spacing` (or at a rate such as ``"44.1kHz"``) on the absolute grid; `fill` says what beats between events get.

        Without `fill` only readings that lie exactly on a beat become samples, to the nanosecond; all others are left out (if they are
        more than a tenth, the log says so once). Where stamps have an offset, say `offset`; where they jitter or are rounded (3 kHz in
        microseconds), use `snap`; where beats are to lie between readings, `fill`. To take every nth sample on purpose: `downsample`.

        Inside a lifetime beats have the event's value. It lasts until its last nanosecond, ``end - 1``: from there `hp.linear` draws its
        line to the next start, and from there a fill's `max_gap` counts. Start: nothing before a key's first event. Gap: no samples where
        neighbours are further apart than `max_gap`. End: `hp.hold` goes on for `max_gap` after the last event, other fills end with it.
        """
        timebase = Timebase(period(spacing), instant(offset))
        return self._then(Sample, timebase=timebase, fill=fill)

    def snap(self, spacing: Duration, tolerance: Duration, *, offset: Instant = 0) -> UniformSignal:
        """Samples every `spacing` from readings with jittered stamps: each at the beat within `tolerance` of it, others are left out.

        `hydrophone.estimate_period` finds the spacing of given stamps.
        """
        timebase = Timebase(period(spacing), instant(offset))
        return self._then(Snap, timebase=timebase, tolerance=duration(tolerance))
