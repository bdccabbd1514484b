"""Synthetic rows: their times follow a law of arrivals, and the same seed gives the same rows however they are read."""

from __future__ import annotations

import time
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from hydrophone.connect.live import Source
from hydrophone.errors import ParameterError

Arrivals = Literal["constant", "poisson", "bursty"]

BLOCK = 4096
"""Rows that are drawn at a time, whatever is asked for."""
WITHIN_BURST = 0.01
"""How far rows of a burst are apart, as a share of the mean."""


class Synthetic(Source):
    """Rows with a key, a time and a value.

    Parameters
    ----------
    period : nanoseconds between two rows, on average
    rows : how many; None: no end
    arrivals : "constant": `period` apart; "poisson": exponentially; "bursty": `burst` rows close together, then a pause
    keys : the number of keys, drawn at random
    burst : rows of a burst
    seed : of all that is random
    paced : whether rows come as their times pass by the clock; else as fast as they are read

    Examples
    --------
    >>> source = Synthetic(10, 5, "constant", keys=1, burst=1, seed=0, paced=False)
    >>> source.open()
    >>> source.read(3)["ts"].to_pylist(), source.read(3)["ts"].to_pylist(), source.read(3)
    ([0, 10, 20], [30, 40], END)
    """

    schema = pa.schema([("key", pa.int64()), ("ts", pa.int64()), ("value", pa.float64())])

    def __init__(
        self, period: int, rows: int | None, arrivals: Arrivals, *, keys: int, burst: int, seed: int, paced: bool
    ) -> None:
        if arrivals not in ("constant", "poisson", "bursty"):
            raise ParameterError(
                f"read.synthetic: arrivals must be 'constant', 'poisson' or 'bursty', got {arrivals!r}"
            )
        for name, value in (
            ("period", period),
            ("keys", keys),
            ("burst", burst),
            ("rows", 1 if rows is None else rows),
        ):
            if value < (0 if name == "rows" else 1):
                raise ParameterError(f"read.synthetic: {name} must be positive, got {value}")
        self.period, self.rows, self.arrivals, self.keys = period, rows, arrivals, keys
        self.burst, self.seed, self.paced = burst, seed, paced

    def open(self) -> None:
        """Begin with the first row again."""
        self._block, self._time, self._given = 0, 0.0, 0
        self._drawn = self.schema.empty_table()
        self._began = time.monotonic_ns()

    def read(self, limit: int) -> Any:
        """The next rows; with `paced` those whose time has come."""
        if not len(self._drawn):
            if self.rows is not None and self._given >= self.rows:
                return self.END
            self._drawn = self._draw()
        due = len(self._drawn)
        if self.paced:
            passed = time.monotonic_ns() - self._began
            due = int(np.searchsorted(self._drawn["ts"].to_numpy(), passed, side="right"))
        found, self._drawn = self._drawn.slice(0, min(due, limit)), self._drawn.slice(min(due, limit))
        return found if len(found) else None

    def _draw(self) -> pa.Table:
        """The next block, or what is left of the rows."""
        rng = np.random.default_rng([self.seed, self._block])
        gaps = self._gaps(rng)
        times = self._time + np.concatenate([[0.0], np.cumsum(gaps)])
        self._block, self._time = self._block + 1, float(times[-1])
        count = BLOCK if self.rows is None else min(BLOCK, self.rows - self._given)
        self._given += count
        columns = [rng.integers(0, self.keys, BLOCK), times[:-1].astype(np.int64), rng.standard_normal(BLOCK)]
        return pa.table([pa.array(c[:count]) for c in columns], schema=self.schema)

    def _gaps(self, rng: np.random.Generator) -> np.ndarray[Any, np.dtype[np.float64]]:
        if self.arrivals == "constant":
            return np.full(BLOCK, float(self.period))
        if self.arrivals == "poisson":
            return rng.exponential(self.period, BLOCK)
        gaps = np.full(BLOCK, self.period * WITHIN_BURST)
        last = (np.arange(self._block * BLOCK, (self._block + 1) * BLOCK) + 1) % self.burst == 0
        mean_pause = self.period * (self.burst - (self.burst - 1) * WITHIN_BURST)
        gaps[last] = rng.exponential(mean_pause, int(last.sum()))
        return gaps
