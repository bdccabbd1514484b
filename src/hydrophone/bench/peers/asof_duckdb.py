"""As-of join with DuckDB, from memory. DuckDB is no dependency of this package."""

from __future__ import annotations

import importlib
from typing import Any

import pyarrow as pa


def asof(left: pa.Table, right: pa.Table) -> Any:
    """Arrow tables in, an Arrow table out; of rows that tie, DuckDB may take another one in every run."""
    connection = importlib.import_module("duckdb").connect()
    connection.register("l", left)
    connection.register("r", right)
    columns = ", ".join(f"r.{name}" for name in right.column_names if name not in ("key", "time"))
    query = f"select l.*, r.time as time_right, {columns} from l asof left join r on l.key = r.key and l.time >= r.time"
    return connection.sql(query).arrow()
