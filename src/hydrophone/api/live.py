"""`query.live()`: one query that takes rows and gives results as they become final."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from hydrophone.api.graph import Graph
from hydrophone.engine import emit, late

if TYPE_CHECKING:
    from hydrophone.api.query import Query


class LiveQuery:
    """A query that takes rows and gives results as they become final; `Query.live` makes it."""

    def __init__(self, query: Query, policy: late.Late | None, shape: str) -> None:
        self._query, self._found = query, list[pa.Table]()
        self._graph = Graph(late=policy)
        self._subscription = self._graph.subscribe(query, self._found.append, shape=shape)
        self._schema = emit.result_schema(query.node.type, self._subscription.shape)

    def push(self, rows: Any, source: Query | None = None) -> pa.Table:
        """Take rows, and return the results that are final now and were not before.

        Parameters
        ----------
        rows : a table or batch of Arrow's, a frame, or a dictionary of columns, with the columns of the source
        source : which source they belong to, where the query has several
        """
        self._graph.push(source or self._query, rows)
        return self._results()

    def close(self) -> pa.Table:
        """End the data, and return the rest of the results."""
        self._graph.close()
        return self._results()

    def _results(self) -> pa.Table:
        if self._subscription.error is not None:
            raise self._subscription.error
        found, self._found[:] = pa.concat_tables([self._schema.empty_table(), *self._found]), []
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._graph.close(now=True)
