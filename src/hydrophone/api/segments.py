"""Segments of signals: cut out by ranges of time, put beside each other, regrouped."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, Generic, Self

from hydrophone.api.quantities import Extent, sample_count
from hydrophone.api.query import Query, StreamT, UniformT, WindowedT, check_query
from hydrophone.arguments import public
from hydrophone.errors import ParameterError
from hydrophone.model.time import MAX_TIME, Duration, duration
from hydrophone.ops.resampling.interleave import Deinterleave, Interleave
from hydrophone.ops.signals.sync import Sync
from hydrophone.ops.signals.zip_signals import Zip
from hydrophone.ops.windows.window import Window
from hydrophone.plan.parameters import length
from hydrophone.plan.types import Missing


class Regroupings(Query, Generic[WindowedT]):
    """Methods of `UniformSignal`: the same samples in other groups."""

    def rewindow(self, size: Extent, gap: Extent = 0) -> WindowedT:
        """Arrays of `size` samples with `gap` samples between them; a negative gap: neighbours share so many. `dewindow` goes back.

        Start, gap and end: a window that lacks a sample is left out.

        Examples
        --------
        >>> import pyarrow as pa, hydrophone as hp
        >>> rows = hp.from_arrow(pa.table({"t": range(0, 60, 10), "v": range(6)}), time="t")
        >>> rows.signal("v").sample(10).rewindow(2, gap=1).to_arrow()["values"].to_pylist()
        [[0, 1], [3, 4]]
        """
        span = sample_count(size, self.node.type, "rewindow: size")
        apart = sample_count(gap, self.node.type, "rewindow: gap", most=MAX_TIME - span)
        if apart <= -span:
            raise ParameterError(f"rewindow: windows of {span} samples cannot share {-apart}")
        return self._then(Window, size=span, hop=span + apart, missing=Missing.DROP)

    def deinterleave(self, n: int) -> Self:
        """`n` samples that follow each other as the `n` channels of one, at the instant of the first: ``x.reshape(-1, n)``.

        Groups begin at multiples of `n` on the absolute grid. A group that lacks a sample is left out.

        Examples
        --------
        >>> import pyarrow as pa, hydrophone as hp
        >>> rows = hp.from_arrow(pa.table({"t": range(0, 40, 10), "v": [1, 5, 2, 6]}), time="t")
        >>> stereo = rows.signal("v").sample(10).deinterleave(2)
        >>> stereo.to_arrow().to_pylist()
        [{'t': 0, 'value_0': 1, 'value_1': 5}, {'t': 20, 'value_0': 2, 'value_1': 6}]
        >>> stereo.interleave().to_arrow()["value"].to_pylist()
        [1, 5, 2, 6]
        """
        count = length(n, "deinterleave: n")
        if count < 2:
            raise ParameterError(f"deinterleave: n must be at least 2, got {n}")
        return self._then(Window, size=count, hop=count, missing=Missing.DROP)._then(Deinterleave)

    def interleave(self) -> Self:
        """The channels of every sample one after the other, as one signal that is so many times as fast; `deinterleave` goes back."""
        return self._then(Interleave)


@public
def sync(
    ranges: StreamT,
    *signals: Query,
    names: str | Sequence[str] = (),
    missing: str = "drop",
    delete: bool = False,
    longest: Duration | None = None,
) -> StreamT:
    """For every range ``[start, end)`` of the key one row with the samples of all signals in it.

    The row has the columns of the range, and for each signal an array (an array of arrays where it has channels). Signals may have
    different rates. Ranges and samples come in any order that their progress allows; a range leaves when its last samples are known.
    Samples are held as they came, and copied once, when a range takes them.

    Start, gap and end: a range in which a signal has no sample, or lacks one, is left out; with ``missing="null"`` it has null there.

    Parameters
    ----------
    ranges : events with lifetimes, as `above`, `trigger` and `cfar` give
    signals : uniform signals with the same key
    names : of the columns of arrays; by default ``values``, or ``values_0``, ``values_1`` and so on for several signals
    missing : "drop" or "null"
    delete : whether a sample leaves once: a range then begins where all that started before it have ended; with nothing left it is left out
    longest : no range lasts longer (else an error); with it the query can run in slices of time, and no range holds up a stream for long

    Examples
    --------
    >>> import pyarrow as pa, hydrophone as hp
    >>> rows = pa.table({"t": range(0, 80, 10), "v": [0.0, 1.0, 7.0, 8.0, 9.0, 1.0, 0.0, 0.0]})
    >>> sound = hp.from_arrow(rows, time="t").signal("v").sample(10)
    >>> hp.sync(sound.above(5), sound, sound.downsample(2), names=["all", "half"]).to_arrow().to_pylist()
    [{'t': 20, 'end': 50, 'peak': 9.0, 'samples': 3, 'all': [7.0, 8.0, 9.0], 'half': [7.0, 9.0]}]
    """
    if not signals:
        raise ParameterError("sync: needs at least one signal", hint="hp.sync(ranges, signal)")
    check_query(ranges, "sync")
    made: Any = ranges
    given = (names,) if isinstance(names, str) else tuple(names)
    default = ("values",) if len(signals) == 1 else tuple(f"values_{i}" for i in range(len(signals)))
    if given and len(given) != len(signals):
        raise ParameterError(f"sync: {len(given)} names for {len(signals)} signals")
    return made._then(
        Sync,
        *signals,
        names=given or default,
        missing=missing,
        delete=delete,
        longest=None if longest is None else duration(longest),
    )


@public
def zip(*signals: UniformT) -> UniformT:
    """Signals on one grid as the channels of one signal, in this order, where all of them have a sample; elsewhere a hole.

    Examples
    --------
    >>> import pyarrow as pa, hydrophone as hp
    >>> rows = hp.from_arrow(pa.table({"t": [0, 10], "x": [1.0, 2.0], "y": [5.0, 6.0]}), time="t")
    >>> x, y = (rows.signal(name).sample(10) for name in ("x", "y"))
    >>> hp.zip(x, y, x - y).to_arrow().to_pylist()[0]
    {'t': 0, 'value_0': 1.0, 'value_1': 5.0, 'value_2': -4.0}
    """
    if len(signals) < 2:
        raise ParameterError("zip: needs at least two signals", hint="hp.zip(left, right)")
    for signal in signals:
        check_query(signal, "zip")
    made: Any = reduce(lambda a, b: a._then(Zip, b), signals)
    return made
