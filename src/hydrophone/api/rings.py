"""Streams from a ring: rows that another process of this machine writes."""

from __future__ import annotations

from os import PathLike
from typing import Literal

from hydrophone.api.handles import Stream
from hydrophone.api.sources import Key, read_data
from hydrophone.arguments import public
from hydrophone.connect.ring.data import MARK, RingData, ring_schema
from hydrophone.connect.ring.sink import seconds
from hydrophone.errors import ParameterError, path_text
from hydrophone.model.progress import Policy, punctuated
from hydrophone.model.time import Duration


@public
def read_ring(
    path: str | PathLike[str],
    *,
    key: Key = (),
    time: str,
    end: str | None = None,
    sequence: str | None = None,
    progress: Policy | None = None,
    share: tuple[int, int] | None = None,
    patience: Duration | None = "1min",
    lost: Literal["error", "wait"] = "error",
    name: str | None = None,
) -> Stream:
    """Rows that another process of this machine writes into a ring (`hydrophone.write.ring`), as they come.

    A graph joins the ring when it begins to read (``open``, ``run``, ``start`` or a cursor) and has all messages from then on.
    `to_arrow` and `batches` read until the writer closes the ring.

    Parameters
    ----------
    path : path of the ring; a bare name is a file of ``/dev/shm``
    key, time, end, sequence, name : as in `from_arrow`
    progress : optional
        What is known about the order of rows; by default the marks of the query that writes, which come with its rows.
    share : (int, int), optional
        ``(i, n)``: only the keys of the i-th of n shares, by the hash that spreads keys over shards. Marks are those of all keys.
    patience : duration or None
        How long to wait for a ring that has a writer; None: for as long as it takes.
    lost : str
        When the writer ends without closing the ring: ``"error"``, or ``"wait"`` for a new writer, which goes on in the same ring.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import hydrophone as hp
    >>> rows = hp.from_arrow(pa.schema([("ts", pa.int64()), ("value", pa.float64())]), time="ts", progress=hp.ordered())
    >>> with hp.Graph() as writer, hp.Graph() as reader:
    ...     subscription = writer.subscribe(rows, hp.write.ring("hydrophone-example", size="1MB"))
    ...     found = []
    ...     read = hp.read.ring("hydrophone-example", time="ts")
    ...     sums = reader.subscribe(read.tumble(10).agg(sum=hp.sum("value")), found.append)
    ...     reader.open()
    ...     writer.push(rows, {"ts": [0, 4, 11], "value": [1.0, 3.0, 5.0]})
    ...     writer.close()
    ...     reader.run()
    >>> [value for table in found for value in table["sum"].to_pylist()]
    [4.0, 5.0]
    """
    place = path_text(path, "read.ring: path")
    if lost not in ("error", "wait"):
        raise ParameterError(f"read.ring: lost must be 'error' or 'wait', got {lost!r}")
    waits = seconds(patience, "read.ring: patience")
    names = (key,) if isinstance(key, str) else tuple(key)
    schema = ring_schema(place, waits)
    for column in (*names, time):
        if column not in schema.names:
            raise ParameterError(f"read.ring: no column {column!r}; the ring has: {', '.join(schema.names)}")
    if MARK in schema.names:
        raise ParameterError(f"read.ring: the ring has a column {MARK!r}, which is the name of its marks")
    data = RingData(place, schema, time, names, _checked_share(share, names), waits, lost)
    read = read_data(
        data, key=key, time=time, end=end, sequence=sequence, progress=progress or punctuated(MARK), name=name
    )
    return read.select(*(n for n in schema.names if n not in {*names, time, end}))


def _checked_share(share: tuple[int, int] | None, key: tuple[str, ...]) -> tuple[int, int] | None:
    if share is None:
        return None
    number, count = share
    if not key:
        raise ParameterError("read.ring: share needs a key", hint='key="player": each share has some of the keys')
    if not 0 <= number < count:
        raise ParameterError(f"read.ring: share must be (i, n) with 0 <= i < n, got {share!r}")
    return int(number), int(count)
