"""Samples in memory as a query: ``hp.from_numpy(...)``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hydrophone.api.handles import UniformSignal
from hydrophone.api.recordings import clock_of_start
from hydrophone.arguments import public
from hydrophone.connect.arrow import ArrowData
from hydrophone.connect.recording import BLOCK, SAMPLES, TIME, Track, arrays_of_samples
from hydrophone.errors import ParameterError
from hydrophone.model.progress import Policy
from hydrophone.model.time import Duration, Instant, instant, period
from hydrophone.plan.node import build
from hydrophone.plan.source import Layout, Source
from hydrophone.plan.types import STAMPS, Clock

KEY = "key"
LARGEST_CHUNK = 1 << 30
"""Samples in a chunk of the column: their places in it have 32 bits."""


@public
def from_numpy(
    x: Any,
    *,
    rate: Duration,
    start: Instant = 0,
    key: Any = None,
    clock: Clock | None = None,
    progress: Policy | None = None,
    name: str | None = None,
) -> UniformSignal:
    """Samples of NumPy arrays as a uniform signal.

    Parameters
    ----------
    x : array, or mapping of keys to arrays
        One dimension of numbers, or two: frames and channels. NaN is a value. No copy is made: what is changed later changes answers.
    rate : str
        Samples in a second (``"25.6kHz"``), or their spacing (``"1ms"``).
    start : instant
        Of the first sample: text, a datetime, or nanoseconds.
    key : str or int, optional
        What the signal is called, in a column ``key``; a mapping has its own. Without one there is no such column.
    clock : "int", "timestamp" or "zoned", optional
        What times are, by default as `start` is given: integers in nanoseconds, or timestamps without or with a zone.
    progress, name :
        As in `from_arrow`.

    Examples
    --------
    >>> import hydrophone as hp, numpy as np
    >>> hp.from_numpy(np.arange(4.0), rate="25.6kHz", start="2026-01-01", key="pump-7").fir([0.5, 0.5]).to_pandas()
          key                          time  value
    0  pump-7 2026-01-01 00:00:00.000000000    0.0
    1  pump-7 2026-01-01 00:00:00.000039062    0.5
    2  pump-7 2026-01-01 00:00:00.000078125    1.5
    3  pump-7 2026-01-01 00:00:00.000117187    2.5
    >>> hp.from_numpy({"a": np.zeros((100, 3)), "b": np.ones((50, 3))}, rate="1kHz")
    <UniformSignal(float64[3], every 1ms) by key>
    """
    if isinstance(x, Mapping):
        if key is not None:
            raise ParameterError("from_numpy: a mapping names its signals itself", hint="leave key= out")
        if not x:
            raise ParameterError("from_numpy: the mapping holds no array")
        arrays = {k: _samples(v, f"from_numpy: {k!r}") for k, v in x.items()}
    else:
        arrays = {key: _samples(x, "from_numpy")}
    widths = {a.shape[1:] for a in arrays.values()}
    if len(widths) > 1:
        raise ParameterError(
            "from_numpy: arrays of different channels make no one signal", hint="call it once for each"
        )
    keyed = key is not None or isinstance(x, Mapping)
    table, grid = _table(arrays, period(rate), instant(start), clock or clock_of_start(start, None), keyed)
    layout = Layout(table.schema, (KEY,) if keyed else (), TIME, samples=SAMPLES, timebase=grid)
    return UniformSignal(build(Source(data=ArrowData(table), layout=layout, progress=progress, label=name)))


def _samples(x: Any, what: str) -> npt.NDArray[Any]:
    found = np.asarray(x)
    if found.dtype == np.float16:
        found = found.astype(np.float32)
    if found.dtype.kind not in "iufc" or found.dtype.itemsize > (16 if found.dtype.kind == "c" else 8):
        raise ParameterError(
            f"{what}: an array of {found.dtype} holds no samples", hint="samples are numbers: x.astype(float)"
        )
    if found.ndim not in (1, 2) or (found.ndim == 2 and not found.shape[1]):
        raise ParameterError(
            f"{what}: an array of shape {found.shape} is no signal", hint="one dimension, or two: frames and channels"
        )
    if found.ndim == 2 and found.dtype.kind == "c" and found.shape[1] > 1:
        raise ParameterError(f"{what}: complex numbers have one channel", hint="give every channel a key of its own")
    native = found.astype(found.dtype.newbyteorder("="), copy=False)
    return native[:, 0] if native.ndim == 2 and native.shape[1] == 1 else native


def _table(
    arrays: Mapping[Any, npt.NDArray[Any]], spacing: Any, start: int, clock: Clock, keyed: bool
) -> tuple[pa.Table, Any]:
    """A row for every block; the arrays are not copied where they are all alike."""
    kind = np.result_type(*arrays.values())
    grid = Track((), spacing, start, 0, kind).grid
    first = grid.index_at(start)[0]
    keys, begins, parts = [], [], []
    for key, x in arrays.items():
        for whole in range(0, len(x) or 1, LARGEST_CHUNK):
            part = x[whole : whole + LARGEST_CHUNK]
            cuts = np.append(np.arange(0, len(part), BLOCK), len(part))
            keys += [key] * (len(cuts) - 1)
            begins += grid.instant(first + whole + cuts[:-1]).tolist()
            parts.append(arrays_of_samples(part.astype(kind, copy=False), cuts))
    samples = pa.chunked_array(parts)
    columns = {TIME: pa.array(begins, pa.int64()).cast(STAMPS[clock]), SAMPLES: samples}
    try:
        return pa.table(({KEY: pa.array(keys, pa.array(list(arrays)).type)} if keyed else {}) | columns), grid
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ParameterError(f"from_numpy: keys must be texts or whole numbers, all of one kind: {error}") from None
