"""Whole numbers as floats, before what would have no room in a narrow type."""

from __future__ import annotations

from typing import Any


def in_floats(signal: Any, but: str = "") -> Any:
    """Whole numbers as doubles, for what gives floats in the end: differences and squares of narrow ones would wrap before.

    `but` names a type that stays as it is: differences of int64 are exact, and a double has not room for all of its digits.
    """
    dtype = signal.node.type.dtype
    return signal * 1.0 if dtype.kind in "iu" and dtype.name != but else signal
