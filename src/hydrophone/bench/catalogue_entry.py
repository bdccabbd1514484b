"""What the catalogue measures: an operator of ours, and the calls of other libraries that give the same answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Array = npt.NDArray[Any]
PERIOD = 1_000_000
"""Nanoseconds between two samples."""


@dataclass(frozen=True)
class Entry:
    """An operator on samples.

    Attributes
    ----------
    name : the methods, and what was chosen, such as ``"fir, 32 taps"``
    ours : a query over as many signals as there are inputs
    peers : calls by the names of libraries, over matrices with a row per key; the first says which answer is right
    inputs : number of signals
    edges : samples at both ends of a key that are not compared: other libraries choose other edges
    loose : by how much answers may differ relative to the largest value, where rounding is not all
    methods : the methods that this stands for, where these are not in its name
    """

    name: str
    ours: Callable[..., Any]
    peers: Mapping[str, Callable[..., Array]]
    inputs: int = 1
    edges: int = 0
    loose: float = 0.0
    methods: tuple[str, ...] = ()

    def cut(self, values: Array) -> Array:
        """Without the edges."""
        return values[:, self.edges : values.shape[1] - self.edges] if self.edges else values


@dataclass(frozen=True)
class RowEntry:
    """An operator on the rows of a table.

    Attributes
    ----------
    name, peers, methods : as of `Entry`; peers get the table
    ours : a query over the stream of the rows, and the table
    answer : numbers of a result that do not depend on the order of its rows
    """

    name: str
    ours: Callable[..., Any]
    peers: Mapping[str, Callable[[pa.Table], Any]]
    answer: Callable[[Any], Array]
    methods: tuple[str, ...] = ()


def sliding(x: Array, size: int, hop: int = 1) -> Array:
    """All windows of every key: keys x windows x size, a view."""
    return np.lib.stride_tricks.sliding_window_view(x, size, axis=1)[:, ::hop]


def flat_convolution(x: Array, taps: Array) -> Array:
    """``numpy.convolve`` over everything, with room between the keys so that they do not touch."""
    keys, length = x.shape
    padded = np.zeros((keys, length + len(taps) - 1))
    padded[:, :length] = x
    return np.convolve(padded.reshape(-1), taps)[: padded.size].reshape(padded.shape)[:, :length]
