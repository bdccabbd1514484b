"""The integer hash for shards and for compiled hash tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from hydrophone.model.compiled import compiled


@compiled(inline="always")
def mix(x: Any) -> Any:
    """The finaliser of splitmix64, of one uint64. Shards of checkpoints depend on it: it must never change."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
