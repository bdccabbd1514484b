"""The fluent handles Stream, Signal, UniformSignal and Windowed: the table of contents of the language, one line per method."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import narwhals as nw
import numpy as np
import pyarrow as pa

from hydrophone.engine import emit, late, local
from hydrophone.errors import ParameterError, SignalTypeError
from hydrophone.io import csv, parquet
from hydrophone.ops.aggregates import Aggregate, Tumble
from hydrophone.ops.arithmetic import Combine, Scalar
from hydrophone.ops.filters import Ema, Fir, Sos
from hydrophone.ops.intervals import Above
from hydrophone.ops.joins import BandJoin
from hydrophone.ops.keys import KeyBy
from hydrophone.ops.rows import Select, ToEvents, Where, WithColumns
from hydrophone.ops.sampling import Fill, Sample
from hydrophone.ops.signals import Channel, ToSignal
from hydrophone.ops.windows import Fft, Ifft, Irfft, MapWindows, OverlapAdd, Rfft, Window
from hydrophone.plan.explain import explain
from hydrophone.plan.node import Node, build
from hydrophone.plan.types import Missing, UniformType
from hydrophone.sigseg import SigSeg
from hydrophone.time import Duration, Instant, Timebase, duration, instant, period

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from pyspark.sql import DataFrame, SparkSession

    from hydrophone import write
    from hydrophone.spark.streaming import RunningQuery


@dataclass(frozen=True, eq=False, repr=False)
class Query:
    """A query: a plan that can be explained and run. Handles are values; every method gives a new one."""

    node: Node

    def __repr__(self) -> str:
        return f"<{self.node.type.describe()}>"

    def explain(self, stage: str = "logical") -> str:
        """What the plan does, node by node: type, reach, scope, host and why.

        Parameters
        ----------
        stage : "logical", "rewritten", "lowered", "stages" or "spark"
        """
        if stage == "spark":
            from hydrophone.spark import batch

            return batch.explain(self.node)
        return explain(self.node, stage)

    def to_arrow(self, shape: str = "rows") -> pa.Table:
        """Run in this process; the whole answer as an Arrow table, in no particular order of rows."""
        return local.run(self.node, emit.check_shape(self.node.type, shape))

    def to_pandas(self, shape: str = "rows") -> pd.DataFrame:
        """Run in this process; the whole answer as a pandas DataFrame."""
        return self.to_arrow(shape).to_pandas()

    def to_parquet(self, path: str | PathLike[str], *, shape: str = "rows", overwrite: bool = False) -> None:
        """Run in this process and write the whole answer, or nothing: a file if the name ends in ``.parquet``, else a folder with one."""
        parquet.write_parquet(lambda: self.to_arrow(shape), os.fspath(path), overwrite=overwrite)

    def to_csv(self, path: str | PathLike[str], *, overwrite: bool = False) -> None:
        """Run in this process and write the whole answer as one CSV file, or nothing; complex values are ``value.re`` and ``value.im``."""
        csv.write_csv(lambda: self.to_arrow(), emit.schema(self.node.type), os.fspath(path), overwrite=overwrite)

    def plot(
        self,
        *,
        key: Any = None,
        start: Instant | None = None,
        end: Instant | None = None,
        ax: Axes | None = None,
        path: str | PathLike[str] | None = None,
    ) -> Axes:
        """Run in this process and draw the answer, of one key or a list of them; `path` also writes it: see `hydrophone.plot.plot`."""
        from hydrophone.plot import plot

        return plot(self, key=key, start=start, end=end, ax=ax, path=path)

    def to_spark(
        self,
        spark: SparkSession,
        *,
        plan: Literal["auto", "slices", "keys", "shards"] = "auto",
        shape: str = "rows",
        slices: int | None = None,
        shards: int | None = None,
    ) -> DataFrame:
        """Run on Spark: a lazy DataFrame, to compose with Spark code of your own.

        The plan ("slices", "shards", "keys") and its counts are chosen from the data unless given; ``explain("spark")``
        says which and why. A uniform signal leaves as rows, or with ``shape="segments"`` as one row per contiguous run.
        """
        from hydrophone.spark import batch

        return batch.to_spark(self.node, spark, plan=plan, shape=shape, slices=slices, shards=shards)

    def batches(self, rows: int = 65_536, *, late: late.Late | None = None, shape: str = "rows") -> Iterator[pa.Table]:
        """Run in this process as the rows come, so many at a time; results follow the progress that the sources promise.

        A late row is an error unless `late` says otherwise.
        """
        if rows < 1:
            raise ParameterError(f"batches: rows must be at least 1, got {rows}")
        return local.run_as_it_comes(self.node, rows, late or _ERROR, emit.check_shape(self.node.type, shape))

    def start(
        self,
        spark: SparkSession,
        *,
        to: write.Parquet | write.Memory,
        checkpoint: str,
        late: late.Late | None = None,
        shards: int | None = None,
        files_per_batch: int | None = None,
        trigger: str | None = None,
        shape: str = "rows",
    ) -> RunningQuery:
        """Run as a stream on Spark: new rows are taken as they arrive, and results follow the progress that the sources promise.

        Every result is written once, whatever crashes: the query goes on from its checkpoint, and a micro-batch that is run
        again replaces its results with equal ones. Progress comes from rows alone: while no source has new rows, nothing
        becomes final (the last results wait for rows after them).

        Parameters
        ----------
        spark : SparkSession
        to : where results go, such as ``hp.write.parquet("clean/")``
        checkpoint : str
            A folder that belongs to this query alone. Starting again with it continues; another query or number of shards is refused.
        late : optional
            What happens to rows that come later than their source promised; by default they are kept aside in ``<checkpoint>/late``.
        shards : int, optional
            Shares of the keys, each run by one task at a time; by default Spark's ``spark.sql.shuffle.partitions``. Fixed by
            the first start.
        files_per_batch : int, optional
            How many new files of every source a micro-batch takes at most; by default all that are there.
        trigger : str, optional
            How often to look for new rows (``"10s"``), or ``"available"``: take what is there and stop. By default as often as possible.
        shape : "rows" or "segments"
        """
        from hydrophone.spark import streaming

        return streaming.start(
            self.node,
            spark,
            to=to,
            checkpoint=str(checkpoint),
            late=late or _SIDE,
            shards=shards,
            files_per_batch=files_per_batch,
            trigger=trigger,
            shape=emit.check_shape(self.node.type, shape),
        )


_ERROR = late.error()
_SIDE = late.side()


class Stream(Query):
    """Events with lifetimes, a key and payload columns; lifetimes may overlap."""

    def where(self, condition: nw.Expr) -> Stream:
        """Keep the events for which a condition over their columns is true."""
        return Stream(build(Where(inputs=(self.node,), condition=condition)))

    def with_columns(self, **columns: nw.Expr) -> Stream:
        """Add or replace payload columns."""
        return Stream(build(WithColumns(inputs=(self.node,), columns=tuple(columns.items()))))

    def select(self, *columns: str) -> Stream:
        """Keep only these payload columns."""
        return Stream(build(Select(inputs=(self.node,), columns=columns)))

    def key_by(self, *columns: str, **renamed: str) -> Stream:
        """Group by other columns (``new="old"`` renames); without any, everything belongs together."""
        pairs = tuple((c, c) for c in columns) + tuple(renamed.items())
        return Stream(build(KeyBy(inputs=(self.node,), columns=pairs)))

    def signal(self, *value: str, ties: str = "error") -> Signal:
        """Read a column as a signal, or several as its channels: at most one event of a key at any time."""
        return Signal(build(ToSignal(inputs=(self.node,), value=value, ties=ties)))

    def tumble(self, size: Duration, *, offset: Duration = 0) -> Tumbling:
        """Windows of time that do not overlap; `agg` says what to compute in each."""
        return Tumbling(self.node, duration(size), duration(offset))

    def band_join(
        self,
        other: Stream,
        *,
        before: Duration,
        after: Duration,
        on: str | Sequence[str] | Mapping[str, str] | None = None,
    ) -> Stream:
        """Pairs with events of another stream that start near in time; `on` names columns that must be equal (by default the key)."""
        left, right = (self, other) if on is None else _keyed(self, other, on)
        return Stream(build(BandJoin(inputs=(left.node, right.node), before=duration(before), after=duration(after))))


def _keyed(left: Stream, right: Stream, on: str | Sequence[str] | Mapping[str, str]) -> tuple[Stream, Stream]:
    pairs = {on: on} if isinstance(on, str) else dict(on) if isinstance(on, Mapping) else {c: c for c in on}
    return left.key_by(*pairs), right.key_by(**pairs)


@dataclass(frozen=True, eq=False)
class Tumbling:
    """A stream cut into windows of time, waiting for `agg`."""

    node: Node
    size: int
    offset: int

    def agg(self, **aggregates: Aggregate) -> Stream:
        """Compute aggregates per key and window: ``agg(n=hp.count(), level=hp.mean("value"))``."""
        return Stream(
            build(Tumble(inputs=(self.node,), size=self.size, offset=self.offset, aggregates=tuple(aggregates.items())))
        )


class Signal(Stream):
    """A stream whose events of one key never overlap."""

    def where(self, condition: nw.Expr) -> Signal:
        """Keep the events for which a condition over their columns is true."""
        return Signal(build(Where(inputs=(self.node,), condition=condition)))

    def sample(self, spacing: Duration, *, offset: Instant = 0, fill: Fill | None = None) -> UniformSignal:
        """Samples every `spacing` (or at a rate such as ``"44.1kHz"``) on the absolute grid; `fill` says what beats between events get."""
        timebase = Timebase(period(spacing), instant(offset))
        return UniformSignal(build(Sample(inputs=(self.node,), timebase=timebase, fill=fill)))


class UniformSignal(Query):
    """Samples on an exact grid."""

    def ema(self, alpha: float, *, missing: str = "fade") -> UniformSignal:
        """Exponential moving average: `alpha` of the new sample, the rest of the average so far; ``"fade"`` or ``"reset"`` at a hole."""
        return UniformSignal(build(Ema(inputs=(self.node,), alpha=float(alpha), missing=missing)))

    def fir(self, taps: Sequence[float] | np.ndarray[Any, Any], *, missing: str = "zero") -> UniformSignal:
        """Weighted sum of the last ``len(taps)`` samples, newest first, as ``scipy.signal.lfilter(taps, 1, x)``."""
        taps = tuple(np.asarray(taps).ravel().tolist())
        return UniformSignal(build(Fir(inputs=(self.node,), taps=taps, missing=Missing.of(missing, "fir"))))

    def sos(
        self, sections: np.ndarray[Any, Any] | Sequence[Sequence[float]], *, missing: str = "zero"
    ) -> UniformSignal:
        """Second-order sections as SciPy designs them: ``signal.sos(scipy.signal.butter(4, 0.1, output="sos"))``."""
        table = np.asarray(sections, float)
        rows = tuple(tuple(r) for r in table.tolist()) if table.ndim == 2 else ()
        return UniformSignal(
            build(
                Sos(
                    inputs=(self.node,),
                    sections=rows,
                    missing=Missing.of(missing, "sos", (Missing.ZERO, Missing.RESET)),
                )
            )
        )

    def window(self, size: int | str, *, hop: int | str | None = None, missing: str = "drop") -> Windowed:
        """Arrays of `size` samples, every `hop` samples (by default `size`); durations that are whole multiples of the period do too."""
        span = self._samples(size, "size")
        step = span if hop is None else self._samples(hop, "hop")
        kind = Missing.of(missing, "window", (Missing.DROP, Missing.ZERO))
        return Windowed(build(Window(inputs=(self.node,), size=span, hop=step, missing=kind)))

    def above(self, threshold: float, *, report: Duration | None = None) -> Stream:
        """Intervals in which the signal is above a threshold; `report` cuts long ones so that they do not hold back progress."""
        cut = None if report is None else duration(report)
        return Stream(build(Above(inputs=(self.node,), threshold=float(threshold), report=cut)))

    def channel(self, number: int) -> UniformSignal:
        """One channel of a vector signal."""
        return UniformSignal(build(Channel(inputs=(self.node,), number=number)))

    def events(self, column: str = "value") -> Stream:
        """The samples as point events, to relate them with other streams."""
        return Stream(build(ToEvents(inputs=(self.node,), column=column)))

    def segments(self) -> Iterator[tuple[tuple[Any, ...], SigSeg]]:
        """Run in this process; every contiguous run as its key and a `SigSeg` that copies nothing.

        Examples
        --------
        >>> import hydrophone as hp
        >>> rows = pa.table({"k": [7, 7], "t": [0, 10], "v": [1.0, 2.0]})
        >>> for key, segment in hp.from_arrow(rows, key="k", time="t").signal("v").sample(10).segments():
        ...     print(key, segment.to_numpy())
        (7,) [1. 2.]
        """
        return local.run_segments(self.node)

    def _samples(self, value: int | str, what: str) -> int:
        if not isinstance(value, str):
            return int(value)
        timebase = self.node.type.timebase
        if timebase is None:
            raise SignalTypeError(f"window: {what} must be in samples where every key has a period of its own")
        count = duration(value) / timebase.period
        if count.denominator != 1:
            raise ParameterError(
                f"window: {what} {value!r} is not a whole number of samples", hint="give it in samples"
            )
        return int(count)

    def _combine(self, operation: str, other: object, reflected: bool = False) -> UniformSignal:
        if isinstance(other, UniformSignal):
            return UniformSignal(build(Combine(inputs=(self.node, other.node), operation=operation)))
        if isinstance(other, np.generic):
            other = other.item()
        return UniformSignal(build(Scalar(inputs=(self.node,), operation=operation, number=other, reflected=reflected)))  # type: ignore[arg-type]

    def __add__(self, other: object) -> UniformSignal:
        return self._combine("+", other)

    def __radd__(self, other: object) -> UniformSignal:
        return self._combine("+", other, reflected=True)

    def __sub__(self, other: object) -> UniformSignal:
        return self._combine("-", other)

    def __rsub__(self, other: object) -> UniformSignal:
        return self._combine("-", other, reflected=True)

    def __mul__(self, other: object) -> UniformSignal:
        return self._combine("*", other)

    def __rmul__(self, other: object) -> UniformSignal:
        return self._combine("*", other, reflected=True)

    def __truediv__(self, other: object) -> UniformSignal:
        return self._combine("/", other)

    def __rtruediv__(self, other: object) -> UniformSignal:
        return self._combine("/", other, reflected=True)


class Windowed(Query):
    """Arrays of samples; array operators compose until `overlap_add` or nothing ends them."""

    def fft(self) -> Windowed:
        """Full spectrum."""
        return Windowed(build(Fft(inputs=(self.node,))))

    def ifft(self) -> Windowed:
        """Windows from their full spectrum."""
        return Windowed(build(Ifft(inputs=(self.node,))))

    def rfft(self) -> Windowed:
        """Spectrum of real windows."""
        return Windowed(build(Rfft(inputs=(self.node,))))

    def irfft(self) -> Windowed:
        """Real windows from their spectrum."""
        return Windowed(build(Irfft(inputs=(self.node,))))

    def map(self, function: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]) -> Windowed:
        """A function over many windows at once: an array with a row per window in, one with as many rows out."""
        return Windowed(build(MapWindows(inputs=(self.node,), function=function)))

    def overlap_add(self) -> UniformSignal:
        """Lay the windows back on the time axis and add where they overlap."""
        return UniformSignal(build(OverlapAdd(inputs=(self.node,))))


def handle(node: Node) -> Query:
    """The handle for a node's type."""
    return UniformSignal(node) if isinstance(node.type, UniformType) else Stream(node)
