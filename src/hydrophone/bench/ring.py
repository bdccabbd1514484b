"""`ring`: tables to one and to four other processes, through the ring buffer, `multiprocessing.Queue` and pipes.

Every reader decodes every table and sums a column. Processes are there before the clock starts; it stops when the last of them has
said its sum. Queues and pipes get Arrow's bytes, one queue or pipe for each reader, which is what a competent user would send.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hydrophone.bench.harness import Answer, Turns
from hydrophone.connect.ring.memory import ring_path
from hydrophone.connect.ring.reader import End, Message, RingReader
from hydrophone.connect.ring.writer import RingWriter

FORKED = multiprocessing.get_context("forkserver")
SIZE = 64 << 20
AHEAD = 16
"""Messages that a queue holds."""
NAP = 0.0001


class Way(Protocol):
    """A way to send tables: `target` runs in each reader, with `arguments`."""

    def target(self, reader: int) -> tuple[Callable[..., None], tuple[Any, ...]]:
        """What a reader runs."""

    def write(self, table: pa.Table) -> None:
        """Send a table to all readers."""

    def close(self) -> None:
        """There are no more."""


def cases(quick: bool) -> Iterator[Turns]:
    """Messages of three sizes."""
    total, runs = (128 << 20, 2) if quick else (1 << 30, 3)
    FORKED.set_forkserver_preload(["hydrophone.bench.ring"])
    for readers in (1, 4):
        for size, named in ((4 << 10, "4 KB"), (64 << 10, "64 KB"), (1 << 20, "1 MB")):
            count = min(total // size, 20_000)
            name = f"{readers} readers, {count} messages of {named}"
            yield Turns(name, partial(_turns, readers, size, count, runs))


def _turns(readers: int, size: int, count: int, runs: int) -> Mapping[str, tuple[Sequence[float], Answer]]:
    rows = size // 16
    rng = np.random.default_rng(size)
    table = pa.table({"ts": np.arange(rows), "value": rng.integers(0, 1000, rows).astype(np.float64)})
    ways: dict[str, Callable[[], Way]] = {
        "ours": lambda: RingWay(table.schema, checked=True),
        "ours, no checksums": lambda: RingWay(table.schema, checked=False),
        "multiprocessing.Queue": lambda: QueueWay(readers),
        "pipe": lambda: PipeWay(readers),
    }
    found: dict[str, tuple[list[float], Answer]] = {}
    for _ in range(runs):
        for name, way in ways.items():
            seconds, answer = _measure(way(), table, readers, count)
            times, _ = found.setdefault(name, ([], answer))
            times.append(seconds)
    return found


def _measure(way: Way, table: pa.Table, readers: int, count: int) -> tuple[float, Answer]:
    processes, heard = [], []
    for reader in range(readers):
        mine, theirs = FORKED.Pipe()
        target, arguments = way.target(reader)
        process = FORKED.Process(target=target, args=(theirs, *arguments), daemon=True)
        process.start()
        processes.append(process)
        heard.append(mine)
    for mine in heard:
        assert mine.recv() == "ready"
    begun = time.perf_counter()
    for _ in range(count):
        way.write(table)
    way.close()
    sums = [mine.recv() for mine in heard]
    seconds = time.perf_counter() - begun
    for process in processes:
        process.join()
    return seconds, [float(len(sums)), *(float(v) for one in sums for v in one)]


def _summed(table: pa.Table) -> tuple[int, float]:
    return len(table), pc.sum(table["value"]).as_py()


def _decoded(data: Any) -> tuple[int, float]:
    with pa.ipc.open_stream(pa.py_buffer(data)) as stream:
        return _summed(stream.read_all())


def _encoded(table: pa.Table) -> pa.Buffer:
    target = pa.BufferOutputStream()
    with pa.ipc.new_stream(target, table.schema) as stream:
        stream.write_table(table)
    return target.getvalue()


class RingWay:
    """Through the ring; readers look at the rows where they are."""

    def __init__(self, schema: pa.Schema, checked: bool) -> None:
        self.name = f"hydrophone-bench-{os.getpid()}"
        self.writer = RingWriter(ring_path(self.name), SIZE, schema, None, checked)
        self.write = self.writer.write
        self.close = self.writer.close

    def target(self, reader: int) -> tuple[Callable[..., None], tuple[Any, ...]]:
        """Join it."""
        return read_ring, (self.name,)


def read_ring(said: Connection, name: str) -> None:
    """Read a ring in another process."""
    rows, total = 0, 0.0
    with RingReader(ring_path(name)) as reader:
        said.send("ready")
        while not isinstance(found := reader.use(_summed), End):
            if isinstance(found, Message):
                rows, total = rows + found.rows[0], total + found.rows[1]
            else:
                time.sleep(NAP)
    said.send((rows, total))


class QueueWay:
    """A queue for each reader."""

    def __init__(self, readers: int) -> None:
        self.queues: list[Any] = [FORKED.Queue(AHEAD) for _ in range(readers)]

    def target(self, reader: int) -> tuple[Callable[..., None], tuple[Any, ...]]:
        """Read its queue."""
        return read_queue, (self.queues[reader],)

    def write(self, table: pa.Table) -> None:
        """Encode once, put everywhere."""
        data = _encoded(table).to_pybytes()
        for queue in self.queues:
            queue.put(data)

    def close(self) -> None:
        """None is the end."""
        for queue in self.queues:
            queue.put(None)


def read_queue(said: Connection, queue: Any) -> None:
    """Read a queue in another process."""
    rows, total = 0, 0.0
    said.send("ready")
    while (data := queue.get()) is not None:
        more, value = _decoded(data)
        rows, total = rows + more, total + value
    said.send((rows, total))


class PipeWay:
    """A pipe for each reader."""

    def __init__(self, readers: int) -> None:
        self.pipes = [FORKED.Pipe(duplex=False) for _ in range(readers)]

    def target(self, reader: int) -> tuple[Callable[..., None], tuple[Any, ...]]:
        """Read its end."""
        return read_pipe, (self.pipes[reader][0],)

    def write(self, table: pa.Table) -> None:
        """Encode once, send everywhere."""
        data = _encoded(table)
        for _, end in self.pipes:
            end.send_bytes(data)

    def close(self) -> None:
        """No bytes are the end."""
        for _, end in self.pipes:
            end.send_bytes(b"")


def read_pipe(said: Connection, pipe: Connection) -> None:
    """Read a pipe in another process."""
    rows, total = 0, 0.0
    said.send("ready")
    with suppress(EOFError):
        while data := pipe.recv_bytes():
            more, value = _decoded(data)
            rows, total = rows + more, total + value
    said.send((rows, total))
