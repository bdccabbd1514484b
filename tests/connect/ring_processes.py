"""What the processes of the ring's tests do. They are forked from a server that has imported everything."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

import hydrophone as hp
from hydrophone.connect.ring.reader import End, RingReader
from hydrophone.connect.ring.writer import RingWriter

FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(["tests.connect.ring_processes"])

SCHEMA = pa.schema([("number", pa.int64()), ("text", pa.string())])
ROWS = 40
SIZE = 1 << 20


def numbered(number: int) -> pa.Table:
    """A message that tells which one it is, in every row."""
    return pa.table({"number": [number] * ROWS, "text": [f"{number}" * (number % 97)] * ROWS}, schema=SCHEMA)


def read(
    path: Path, said: Connection, lost: Literal["error", "wait"] = "error", pause: float = 0.0, patience: float = 30.0
) -> None:
    """Read all messages; say "ready", then the numbers, and how it ended."""
    numbers: list[int] = []
    with RingReader(path, patience, lost) as reader:
        said.send("ready")
        ended = "closed"
        try:
            while not isinstance(found := reader.take(), End):
                if found is None:
                    time.sleep(0.0002)
                    continue
                values = set(found.rows["number"].to_pylist())
                assert len(values) == 1 and len(found.rows) == ROWS
                numbers.append(values.pop())
                assert found.rows["text"][0].as_py() == f"{numbers[-1]}" * (numbers[-1] % 97)
                time.sleep(pause)
        except hp.DataError as error:
            ended = error.message
    said.send((numbers, ended))


def write(path: Path, said: Connection, readers: int, first: int, count: int | None) -> None:
    """Write numbered messages, without end where there is no count; say how many readers have died."""
    writer = RingWriter(path, SIZE, SCHEMA, 30.0)
    writer.wait_for_readers(readers, 30.0)
    said.send("writing")
    at = first
    while count is None or at < first + count:
        writer.write(numbered(at), at)
        at += 1
    writer.close()
    said.send((writer.dead, writer.slow))


class Child:
    """A process and what it says."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.said, there = FORKED.Pipe()
        self.process = FORKED.Process(target=function, args=(arguments[0], there, *arguments[1:]), daemon=True)
        self.process.start()
        there.close()

    def hear(self, seconds: float = 60.0) -> Any:
        """What it says next; nobody may hang."""
        assert self.said.poll(seconds), f"{self.process} hangs"
        return self.said.recv()

    def kill(self) -> None:
        """As ``kill -9`` does."""
        self.process.kill()
        self.process.join()


def soccer_like(path: str, said: Connection, share: tuple[int, int] | None) -> None:
    """Run a query over a ring in this process, and say its rows."""
    rows = hp.read.ring(path, key="key", time="ts", share=share)
    said.send(answer(rows).to_arrow().to_pydict())


def answer(rows: hp.Stream) -> hp.Stream:
    """Windows that need marks and keys."""
    return rows.tumble("50ms").agg(n=hp.count(), sum=hp.sum("value"), last=hp.last("value"))


def run_query(path: str, said: Connection, query: Any, share: tuple[int, int] | None) -> None:
    """Run a query over the players of a ring, and say its rows."""
    players = hp.read.ring(path, key="player", time="t", share=share)
    said.send(query(players).to_arrow().to_pydict())
