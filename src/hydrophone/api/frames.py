"""Frames: episodes that the data makes by itself, and what they add up to in the last minutes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic

import narwhals as nw

from hydrophone.api.query import Query, StreamT
from hydrophone.arguments import public
from hydrophone.errors import ParameterError
from hydrophone.model.time import Duration, duration
from hydrophone.ops.aggregates.summaries import Aggregate
from hydrophone.ops.frames.frames import Bands, Frames
from hydrophone.ops.frames.trailing import Trailing
from hydrophone.ops.relational.rows import ToEvents
from hydrophone.plan.expr import col


class FramesOfStreams(Query, Generic[StreamT]):
    """Methods of `Stream`."""

    def frames(
        self,
        status: Bands | nw.Expr | str,
        *,
        noise: Duration = 0,
        at_least: Duration = 0,
        report: Duration | None = None,
        hold: Duration | None = None,
        sums: str | Sequence[str] = (),
    ) -> StreamT:
        """Episodes in which a key has one status: data-driven windows with `status`, how many `readings`, and sums of columns.

        A reading lasts until its end (a point: for `hold`), or until the next reading of its key if that comes first. Of readings at one
        instant the last in order counts. Readings without a hole between them are a stretch; a reading whose status is null, or NaN in
        bands, ends one as a hole does. Within a stretch, in this order:

        1. `noise`: a status that lasts less than this vanishes: its time goes to the status before it, at the start of a stretch to the
           one after it. A stretch in which no status lasts so long gives no frame.
        2. `at_least`: a status that lasts less than this counts onto the next one that lasts. What is left at the end of a stretch is a
           frame of the last status, however short.
        3. Neighbours of equal status merge.

        So the frames of a stretch cover it without a hole. A status that lasts exactly as long as `noise` or `at_least` says is not too
        short. Short statuses wait for one that lasts 100 times `at_least` (`noise`) at most; then the last of them counts as lasting.

        A frame is given when the next one is certain, or its stretch has ended; until then it holds back progress. `report` cuts a frame
        at its first certain reading after a multiple of that duration.

        Parameters
        ----------
        status : Bands, expression or str
            `hydrophone.bands` of a column, a condition such as ``hp.col("load") > 0.9`` (the status is true or false), or a column (or
            expression) of text or whole numbers.
        noise, at_least : duration
            See above.
        report : duration, optional
            Bounds how long a frame that goes on holds back progress.
        hold : duration
            For points alone, and needed there: how long a reading counts if no other follows it.
        sums : str or sequence of str
            Columns that are added up over the readings of each frame; null counts as 0.

        Examples
        --------
        >>> import hydrophone as hp, pyarrow as pa
        >>> table = pa.table({"t": [0, 10, 20, 30, 40, 50], "load": [0.1, 0.9, 0.2, 0.8, 0.9, 0.9]})
        >>> machine = hp.from_arrow(table, time="t")
        >>> levels = hp.bands([0.5], names=["idle", "busy"])
        >>> machine.frames(levels, hold=10, noise=15).to_arrow().to_pylist()
        [{'t': 0, 'end': 60, 'status': 'busy', 'readings': 6}]
        >>> machine.frames(hp.col("load") > 0.5, hold=10, at_least=20, sums="load").select("status").to_arrow().to_pylist()
        [{'t': 0, 'end': 60, 'status': True}]
        """
        given: dict[str, Any] = {"bands": status} if isinstance(status, Bands) else {"status": _expression(status)}
        return self._then(
            Frames,
            **given,
            noise=duration(noise),
            at_least=duration(at_least),
            report=None if report is None else duration(report),
            hold=None if hold is None else duration(hold),
            sums=(sums,) if isinstance(sums, str) else tuple(sums),
        )

    def trailing(self, *lengths: Duration | None) -> TrailingWindows[StreamT]:
        """Sliding windows over frames: at the end of every frame the time before it, once for each length; `agg` says what to compute.

        Each length gives windows ``(end - length, end]``; None is all time since the first frame. Frames are held once, for the longest
        length. Frames of a key that touch and have one status count as one; they must not overlap. A frame that begins before the window
        counts in part, by its share of time. Results come with every frame that comes in: to have them at a rate, let frames end at one
        (``frames(report="1s")``). Without None, what is kept of a key goes when the longest window has passed its last frame.

        Examples
        --------
        >>> import hydrophone as hp, pyarrow as pa
        >>> table = pa.table({"t": [0, 40], "end": [40, 60], "status": ["on", "off"], "kwh": [4.0, 1.0]})
        >>> frames = hp.from_arrow(table, time="t", end="end")
        >>> used = frames.trailing(30, None).agg(time=hp.duration(), kwh=hp.sum("kwh"), by="status")
        >>> used.where(hp.col("t") == 60).to_pandas().sort_values(["window", "status"], ignore_index=True)
            t  window status  time  kwh
        0  60    30.0    off    20  1.0
        1  60    30.0     on    10  1.0
        2  60     NaN    off    20  1.0
        3  60     NaN     on    40  4.0
        """
        return TrailingWindows(self, tuple(None if n is None else duration(n) for n in lengths))


class FramesOfSignals(Query, Generic[StreamT]):
    """Methods of `UniformSignal`."""

    def frames(
        self,
        status: Bands | nw.Expr,
        *,
        noise: Duration = 0,
        at_least: Duration = 0,
        report: Duration | None = None,
        sums: str | Sequence[str] = (),
    ) -> StreamT:
        """Episodes in which a signal has one status; the rules are those of `Stream.frames`. A sample lasts until the next beat.

        Conditions and sums know the samples as the column ``value``. A missing sample is a hole, and so is NaN in bands. Durations of
        samples are rounded up to whole nanoseconds at the end of a stretch.

        Examples
        --------
        >>> import hydrophone as hp, pyarrow as pa
        >>> table = pa.table({"t": range(0, 80, 10), "v": [0.2, 0.4, 3.0, 3.2, 2.9, 12.0, 3.0, 3.1]})
        >>> speed = hp.from_arrow(table, time="t").signal("v").sample(10)
        >>> paces = hp.bands([1, 11], names=["standing", "trot", "sprint"], hysteresis=0.5)
        >>> speed.frames(paces, noise=20).to_arrow().to_pylist()
        [{'t': 0, 'end': 20, 'status': 'standing', 'readings': 2}, {'t': 20, 'end': 80, 'status': 'trot', 'readings': 6}]
        """
        timebase = self.node.type.timebase
        if timebase is None:
            raise ParameterError(
                "frames: every key has a period of its own here",
                hint='events().frames(..., hold="1s") takes one for all',
            )
        events: Any = self._then(ToEvents, column="value", fields=())
        hold = math.ceil(timebase.period)
        return events.frames(status, noise=noise, at_least=at_least, report=report, hold=hold, sums=sums)


def _expression(status: Any) -> nw.Expr:
    """A column by its name, or an expression."""
    if isinstance(status, str):
        return col(status)
    if isinstance(status, nw.Expr):
        return status
    raise ParameterError(
        f"frames: a status is bands, a condition or a column, got {type(status).__name__}",
        hint='frames(hp.bands([1, 11])), frames(hp.col("load") > 0.9) or frames("state")',
    )


@dataclass(frozen=True, eq=False)
class TrailingWindows(Generic[StreamT]):
    """Sliding windows over frames, waiting for `agg`."""

    stream: Query
    lengths: tuple[int | None, ...]

    @public
    def agg(self, *unnamed: Any, by: str | None = None, changed: bool = False, **aggregates: Aggregate) -> StreamT:
        """Compute for every window, and every status in it, with `by`: ``agg(time=hp.duration(), by="status")``.

        A row has the end of the frame as its time, the length of the `window` (in nanoseconds, null for all time), the status, and a
        column for each aggregate: `hydrophone.duration`, `sum` (by share of time), `mean` (weighed by time, null without a value) and
        `count` (of frames that are in the window, however little).

        With `changed` a status has a row only where its window is not what it was at the frame before: that of the frame itself, and those
        of which time has left the window since, with 0 where nothing is left. Who keeps the last row of every status has the whole
        answer, unless a key pauses for more than the longest window: what it had before is then forgotten without a word.

        Examples
        --------
        >>> import hydrophone as hp, pyarrow as pa
        >>> table = pa.table({"t": [0, 40, 50], "end": [40, 50, 60], "status": ["on", "off", "on"]})
        >>> frames = hp.from_arrow(table, time="t", end="end")
        >>> frames.trailing(15).agg(time=hp.duration(), by="status", changed=True).to_arrow().to_pylist()[1:3]
        [{'t': 50, 'window': 15, 'status': 'off', 'time': 10}, {'t': 50, 'window': 15, 'status': 'on', 'time': 5}]
        """
        if unnamed:
            raise ParameterError(
                "trailing: agg: every aggregate needs a name, which becomes its column", hint="agg(time=hp.duration())"
            )
        return self.stream._then(
            Trailing, lengths=self.lengths, aggregates=tuple(aggregates.items()), by=by, changed=changed
        )
