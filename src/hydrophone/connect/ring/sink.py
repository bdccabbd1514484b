"""A ring as a sink: the results of a subscription, with their marks, for other processes of this machine."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from hydrophone.connect.ring.memory import NO_MARK, SMALLEST_RING, ring_path
from hydrophone.connect.ring.writer import RingWriter, plain_schema
from hydrophone.connect.sink import Answer, Sink
from hydrophone.errors import DataError, ParameterError, UnsupportedError
from hydrophone.model.time import MAX_TIME, MIN_TIME, Duration, duration
from hydrophone.plan.parameters import byte_count, whole
from hydrophone.plan.types import DataType, WindowedType


@dataclass(frozen=True, eq=False)
class Ring(Sink):
    """Shared memory that other processes read.

    Attributes
    ----------
    path : of the ring; a bare name is a file of ``/dev/shm``
    size : bytes of memory
    readers : how many readers the first row waits for
    patience : seconds that readers may hold up the writer; None: for as long as they live
    checksums : whether messages have them
    """

    noun = "ring"

    path: str
    size: int
    readers: int
    patience: float | None
    checksums: bool
    _writers: list[RingWriter] = field(default_factory=list, repr=False)
    _came: list[bool] = field(default_factory=list, repr=False)

    @property
    def place(self) -> str:
        """The path."""
        return self.path

    @property
    def writer(self) -> RingWriter:
        """What writes, once a subscription has begun: it counts messages, waits, and readers that were dropped."""
        if not self._writers:
            raise DataError("write.ring: nothing has begun to write into this ring yet", hint="subscribe it first")
        return self._writers[0]

    def subscribed(self, schema: pa.Schema, kind: DataType | None = None) -> None:
        """Make the ring."""
        if isinstance(kind, WindowedType):
            raise UnsupportedError(
                "write.ring: windows have no place in a ring: their marks are of their ends, and rows begin at their starts",
                hint="write what windows are made of, and make them in the process that reads",
            )
        if self._writers:
            raise ParameterError(
                "write.ring: one subscription writes a ring", hint="make another one, with its own name"
            )
        self._writers.append(
            RingWriter(ring_path(self.path), self.size, plain_schema(schema), self.patience, self.checksums)
        )

    def process(self, table: pa.Table, mark: int) -> None:
        """Publish rows and the mark after them."""
        if not self._writers:
            self.subscribed(table.schema)
        self._wait_for_readers()
        self.writer.write(table.cast(self.writer.memory.schema), _published(mark))

    def advance(self, mark: int) -> None:
        """Publish a mark."""
        if _published(mark) != NO_MARK:
            self._wait_for_readers()
            self.writer.advance(mark)

    def _wait_for_readers(self) -> None:
        if not self._came:
            self.writer.wait_for_readers(self.readers, self.patience)
            self._came.append(True)

    def done(self, error: BaseException | None) -> None:
        """Close the ring; readers hear of an error."""
        for writer in self._writers:
            if error is None:
                self._wait_for_readers()
            writer.close(error)

    def save(self, answer: Answer, *, overwrite: bool) -> None:
        """Publish a whole answer; its readers have all marks at its end."""
        self.subscribed(answer.schema)
        try:
            for table in answer.tables():
                self.process(table, MIN_TIME)
        except BaseException as error:
            self.done(error)
            raise
        self.done(None)


def _published(mark: int) -> int:
    """The mark as messages have it; the last one goes without saying."""
    return NO_MARK if mark in (MIN_TIME, MAX_TIME) else mark


def ring_sink(path: str, size: int | str, readers: int, patience: Duration | None, checksums: bool) -> Ring:
    """A ring with checked parameters."""
    count, most = whole(readers, "write.ring: readers"), byte_count(size, "write.ring: size")
    if not 0 <= count <= 64:
        raise ParameterError(f"write.ring: readers must be between 0 and 64, got {count}")
    if most < SMALLEST_RING:
        raise ParameterError(
            f"write.ring: size must be at least {SMALLEST_RING} bytes, got {size!r}", hint='size="64MB"'
        )
    return Ring(path, most, count, seconds(patience, "write.ring: patience"), bool(checksums))


def seconds(value: Duration | None, what: str) -> float | None:
    """A duration in seconds; None: without end."""
    if value is None:
        return None
    found = duration(value)
    if found < 0:
        raise ParameterError(f"{what} must not be negative, got {value!r}", hint="None waits for as long as it takes")
    return found / 1e9
