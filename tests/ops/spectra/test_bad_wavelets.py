"""Wavelets that there are not, and windows that they do not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import hydrophone as hp
from hydrophone.errors import ParameterError


def signal() -> Any:
    return hp.from_arrow(pa.table({"k": ["a"], "t": [0], "v": [1.0]}), key="k", time="t").signal("v").sample(10)


BAD: list[tuple[str, Callable[[], Any], str]] = [
    ("name", lambda: signal().dwt("dbx", 2), "no discrete wavelet is called 'dbx'"),
    ("continuous", lambda: signal().dwt("mexh", 2), "no discrete wavelet"),
    ("levels", lambda: signal().dwt("haar", 0), "levels must be a whole number from 1"),
    ("missing", lambda: signal().dwt("haar", 1, missing="reset"), "missing"),
    ("window-name", lambda: signal().window(8).dwt(3, 2), "dwt: wavelet must be a text, got 3"),
    ("window-levels", lambda: signal().window(8).dwt("haar", 2.5), "levels must be a whole number"),
    ("halves", lambda: signal().window(12).dwt("haar", 3), "windows of 12 values cannot be halved 3 times"),
    ("too-long", lambda: signal().window(8).idwt("db4", 2), "need longer windows than 8 values"),
    ("energy", lambda: signal().window(6).wavelet_energy(2), "wavelet_energy: windows of 6 values"),
]


@pytest.mark.parametrize(("make", "text"), [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_refused(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(ParameterError, match=text) as caught:
        make()
    assert caught.value.where is not None and "test_bad_wavelets.py" in caught.value.where
