"""As-of join with pandas."""

from __future__ import annotations

from typing import Any

import pandas as pd


def asof(left: pd.DataFrame, right: pd.DataFrame) -> Any:
    """Both sides are in the order of time, as `merge_asof` asks."""
    right = right.assign(time_right=right["time"])
    return pd.merge_asof(left, right, on="time", by="key")
