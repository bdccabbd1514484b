"""Meters: what every station of a graph takes, gives and costs."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from hydrophone.engine.stations import Station
from hydrophone.model.batch import Batch, Segments
from hydrophone.model.marks import Mark, Marks


@dataclass
class Meter:
    """Counts of one station since it began.

    Attributes
    ----------
    rows_in, rows_out : rows, windows or samples
    batches : batches that it took
    seconds : time in its kernel, for batches and for marks
    begun : when it began, by the clock of `time.perf_counter`
    """

    rows_in: int = 0
    rows_out: int = 0
    batches: int = 0
    seconds: float = 0.0
    begun: float = field(default_factory=time.perf_counter)

    def took(self, rows: int, seconds: float) -> None:
        """Count a batch."""
        self.batches += 1
        self.rows_in += rows
        self.seconds += seconds

    def timed(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """The same batches, counted, with the time that it takes to make them."""
        batches = iter(batches)
        while True:
            begin = time.perf_counter()
            batch = next(batches, None)
            self.seconds += time.perf_counter() - begin
            if batch is None:
                return
            self.rows_out += size(batch)
            yield batch

    def given(self, batches: Iterable[Batch]) -> Iterable[Batch]:
        """The same batches, counted; those that are there already stay as they are."""
        if type(batches) is not tuple:
            return self.timed(batches)
        for batch in batches:
            self.rows_out += size(batch)
        return batches


def size(batch: Batch) -> int:
    """Rows, windows or samples."""
    return len(batch.values) if isinstance(batch, Segments) else len(batch)


def measure(station: Station) -> Meter:
    """Let a station count."""
    meter, step, kernel = Meter(), station.step, station.kernel
    station.meter = meter

    def stepped(port: int, batch: Batch) -> Iterable[Batch]:
        meter.batches += 1
        meter.rows_in += size(batch)
        begin = time.perf_counter()
        found = step(port, batch)
        meter.seconds += time.perf_counter() - begin
        return meter.given(found)

    station.step = stepped
    if kernel is not None and station.inputs:
        advance = kernel.advance

        def advanced(marks: Marks) -> tuple[Iterable[Batch], Mark]:
            begin = time.perf_counter()
            found, mark = advance(marks)
            meter.seconds += time.perf_counter() - begin
            return meter.given(found), mark

        kernel.advance = advanced  # type: ignore[method-assign]
    return meter
