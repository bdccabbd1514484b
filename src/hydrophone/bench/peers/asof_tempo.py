"""As-of join by dbl-tempo, where it is installed: a window over a union too, written by others."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def absent() -> str | None:
    """Why it cannot be compared with; None where it can."""
    try:
        import tempo  # noqa: F401 (whether it is there)
    except ImportError as error:
        return f"{error}; hydrophone[bench] brings dbl-tempo and the ipython that it needs"
    return None


def asof(left: DataFrame, right: DataFrame) -> DataFrame:
    """With its own defaults, and the columns named as ours are."""
    from tempo import TSDF

    sides = [TSDF(frame, ts_col="time", partition_cols=["key"]) for frame in (left, right)]
    found: DataFrame = sides[0].asofJoin(sides[1], right_prefix="right").df
    names = [f"right_{n} as {n}" for n in right.columns if n not in ("key", "time")]
    return found.selectExpr("key", "time", "value", "right_time as time_right", *names)
