"""As-of join with Polars, from memory."""

from __future__ import annotations

import polars as pl


def asof(left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    """Both sides are in the order of time; Polars is told so, since it cannot check it for several keys."""
    return left.join_asof(right, on="time", by="key", strategy="backward", coalesce=False, check_sortedness=False)
