"""`query.live()`: one query that takes rows and gives results as they become final."""

from __future__ import annotations

from typing import Any, Self

import pyarrow as pa

from hydrophone.connect.live import conform
from hydrophone.connect.sink import CallbackSink
from hydrophone.engine import emit
from hydrophone.engine.graph import RunningGraph, one_source
from hydrophone.engine.late import Late
from hydrophone.errors import ParameterError
from hydrophone.plan.node import Node


class LiveQuery:
    """A query that takes rows and gives results as they become final; `Query.live` makes it."""

    def __init__(self, root: Node, late: Late, shape: emit.Shape) -> None:
        self._root, self._found, self._closed = root, list[pa.Table](), False
        self._graph = RunningGraph(late)
        self._subscription = self._graph.subscribe(root, CallbackSink(self._found.append), shape=shape)
        self._schema = emit.result_schema(root.type, shape)

    def push(self, rows: Any, source: Any = None) -> pa.Table:
        """Take rows, and return the results that are final now and were not before.

        Parameters
        ----------
        rows : a table or batch of Arrow's, a frame, or a dictionary of columns, with the columns of the source
        source : the stream of the source that they belong to, where the query has several
        """
        if self._closed:
            raise ParameterError("push: the query is closed")
        root = self._root if source is None else getattr(source, "node", None)
        if not isinstance(root, Node):
            raise ParameterError(f"push: source must be a stream, got {source!r}")
        feed = self._graph.changes.run(lambda: self._graph.feed(one_source(root, "push")))
        table = conform(rows, feed.source.layout.schema, f"push: {feed.source.title}")
        self._graph.changes.run(lambda: self._graph.push(feed, table))
        return self._results()

    def close(self) -> pa.Table:
        """End the data, and return the rest of the results; a second call returns none."""
        self._close(now=False)
        return self._results()

    def _close(self, now: bool) -> None:
        if not self._closed:
            self._closed = True
            self._graph.changes.run(lambda: self._graph.close(now))

    def _results(self) -> pa.Table:
        if self._subscription.error is not None:
            raise self._subscription.error
        found, self._found[:] = pa.concat_tables([self._schema.empty_table(), *self._found]), []
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._close(now=True)
