"""As-of join in Spark SQL, as it is written by hand: both sides in one table, and the last right row before every left one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def asof(left: DataFrame, right: DataFrame) -> DataFrame:
    """At equal times the right row comes first."""
    names = [c for c in right.columns if c != "key"]
    packed = ", ".join(names)
    query = f"""
        with both as (
            select key, time, 0 as side, cast(null as double) as value, struct({packed}) as found from {{right}}
            union all
            select key, time, 1 as side, value, null as found from {{left}}
        ), filled as (
            select key, time, side, value, last(found, true) over (partition by key order by time, side) as found from both
        )
        select key, time, value, found.time as time_right, {", ".join(f"found.{n}" for n in names if n != "time")}
        from filled where side = 1
    """
    return left.sparkSession.sql(query, left=left, right=right)
