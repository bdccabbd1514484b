"""As-of join with DuckDB, from memory."""

from __future__ import annotations

import duckdb
import pyarrow as pa


def asof(left: pa.Table, right: pa.Table) -> pa.Table:
    """Arrow tables in, an Arrow table out; of rows that tie, DuckDB may take another one in every run."""
    connection = duckdb.connect()
    connection.register("l", left)
    connection.register("r", right)
    columns = ", ".join(f"r.{name}" for name in right.column_names if name not in ("key", "time"))
    query = f"select l.*, r.time as time_right, {columns} from l asof left join r on l.key = r.key and l.time >= r.time"
    return connection.sql(query).to_arrow_table()
