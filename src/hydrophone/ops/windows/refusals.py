"""Errors for windows that an operator cannot take."""

from __future__ import annotations

from typing import Any

import numpy as np

from hydrophone.errors import SignalTypeError
from hydrophone.plan.types import WindowedType


def refuse_labels(what: str, *kinds: WindowedType) -> None:
    """An error for operators to which windows that end at one sample would be the same."""
    for x in kinds:
        if x.labels:
            raise SignalTypeError(
                f"{what}: these windows carry columns of events ({', '.join(x.labels.names)})",
                hint="leave out columns= of epochs, or do this before the windows are cut",
            )


def refuse_channels(what: str, *kinds: WindowedType) -> None:
    """An error for operators whose windows have one array each."""
    for x in kinds:
        if x.channels:
            raise SignalTypeError(
                f"{what}: these windows have {x.channels} channels",
                hint="pick one first: channel(0), of the windows or of their signal",
            )


def refuse_complex(what: str, dtype: np.dtype[Any], hint: str) -> None:
    """An error for operators that have a meaning for real values only."""
    if dtype.kind == "c":
        raise SignalTypeError(f"{what}: the values are complex", hint=hint)
