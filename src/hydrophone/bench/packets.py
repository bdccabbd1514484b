"""Network packets to measure with: links with a rate, flows, lulls and bursts, whose packets arrive late or out of order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

SECOND = 1_000_000_000
ADDRESS = {"src": "dst", "dst": "src", "sport": "dport", "dport": "sport"}
"""An answer goes back where the question came from."""


@dataclass(frozen=True)
class Link:
    """What a link carries, and when it arrives.

    Attributes
    ----------
    rate : packets per second
    seconds : how long it lasts
    flows : how many pairs of addresses there are; each packet belongs to one at random
    skew : every packet arrives so many seconds after it was sent
    jitter : and up to so many more, so that packets overtake each other
    lulls : (from, to) in seconds: nothing is sent
    bursts : (from, to, factor): so many times the packets
    grain : times are whole multiples of so many nanoseconds
    reverse : packets go from the receivers of the flows to the senders
    seed : of the random numbers
    """

    rate: float
    seconds: float
    flows: int
    skew: float = 0.0
    jitter: float = 0.0
    lulls: Sequence[tuple[float, float]] = ()
    bursts: Sequence[tuple[float, float, float]] = ()
    grain: int = 1_000
    reverse: bool = False
    seed: int = 0

    def packets(self) -> Packets:
        """The packets in the order in which they arrive.

        Examples
        --------
        >>> sent = Link(rate=100, seconds=10, flows=5, skew=2, lulls=[(4, 6)]).packets()
        >>> sent.table.column_names
        ['ts', 'src', 'dst', 'sport', 'dport', 'length']
        >>> sent.until(6 * SECOND) == sent.until(8 * SECOND)
        True
        >>> bool((sent.arrival - sent.table["ts"].to_numpy() == 2 * SECOND).all())
        True
        """
        rng = np.random.default_rng(self.seed)
        time = self._times(rng)
        late = rng.integers(0, int(self.jitter * SECOND) + 1, len(time)) if self.jitter else 0
        arrival = time + int(self.skew * SECOND) + late
        order = np.argsort(arrival, kind="stable")
        flow = rng.integers(0, self.flows, len(time))
        # A sender has 16 flows, to different receivers.
        one, other = (0x0A000000 + flow // 16).astype(np.int32), (0x0B000000 + flow % 4096).astype(np.int32)
        low, high = (1024 + flow % 251).astype(np.int32), (80 + flow % 4).astype(np.int32)
        ends = (other, one, high, low) if self.reverse else (one, other, low, high)
        columns = dict(zip(("src", "dst", "sport", "dport"), ends, strict=True))
        length = rng.integers(40, 1501, len(time)).astype(np.int32)
        return Packets(pa.table({"ts": time[order], **columns, "length": length}), arrival[order])

    def _times(self, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        spans = [(0.0, self.seconds, self.rate)]
        spans += [(start, stop, (factor - 1) * self.rate) for start, stop, factor in self.bursts]
        parts = [np.sort(rng.random(round((b - a) * rate))) * (b - a) + a for a, b, rate in spans]
        seconds = np.sort(np.concatenate(parts))
        for start, stop in self.lulls:
            seconds = seconds[(seconds < start) | (seconds >= stop)]
        return (seconds * SECOND).astype(np.int64) // self.grain * self.grain


@dataclass(frozen=True, eq=False)
class Packets:
    """Packets in the order of their arrival, and when each arrives."""

    table: pa.Table
    arrival: npt.NDArray[np.int64]

    def select(self, *columns: str) -> Packets:
        """With these columns alone."""
        return Packets(self.table.select(list(columns)), self.arrival)

    def until(self, time: int) -> int:
        """How many have arrived before an instant."""
        return int(np.searchsorted(self.arrival, time))
