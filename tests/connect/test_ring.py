"""The ring in one process: messages, marks, room, and everything that can be wrong with a file."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hydrophone as hp
from hydrophone.connect.ring import memory as layout
from hydrophone.connect.ring.reader import END, Message, RingReader
from hydrophone.connect.ring.writer import RingWriter
from hydrophone.errors import DataError, ParameterError, UnsupportedError

SCHEMA = pa.schema([("ts", pa.int64()), ("value", pa.float64())])
SMALL = layout.SMALLEST_RING


def numbers(*times: int) -> pa.Table:
    return pa.table({"ts": list(times), "value": [float(t) for t in times]}, schema=SCHEMA)


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "ring"


def taken(reader: RingReader) -> list[Message]:
    """All messages that are there."""
    found = []
    while isinstance(one := reader.take(), Message):
        found.append(one)
    return found


# --- messages ---------------------------------------------------------------------------------------------------------------


def test_messages_come_in_order_with_their_marks_to_every_reader(path: Path) -> None:
    writer = RingWriter(path, SMALL, SCHEMA)
    readers = [RingReader(path), RingReader(path)]
    for at in range(500):
        writer.write(numbers(at, at + 1), at)
        for reader in readers:
            (found,) = taken(reader)
            assert found.rows["ts"].to_pylist() == [at, at + 1] and found.mark == at
    writer.close()
    assert [reader.take() for reader in readers] == [END, END]
    assert writer.messages == 500 and writer.dead == writer.slow == 0 and not path.exists()


@settings(max_examples=25)
@given(st.lists(st.integers(0, 3000), min_size=1, max_size=20), st.data())
def test_rows_of_any_number_arrive_whole(sizes: list[int], data: st.DataObject) -> None:
    """Messages of any size, read at any moment that leaves room, with texts, lists and nulls: many go round the ring."""
    path = layout.ring_path(f"hydrophone-test-{uuid.uuid4().hex}")
    rng = np.random.default_rng(sum(sizes))
    kinds = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.list_(pa.float32())), ("d", pa.bool_())])
    made = [
        pa.table(
            {
                "a": rng.integers(0, 9, n),
                "b": ["x" * int(k) for k in rng.integers(0, 20, n)],
                "c": [None if k == 0 else [1.5] * int(k) for k in rng.integers(0, 5, n)],
                "d": rng.integers(0, 2, n) > 0,
            },
            schema=kinds,
        )
        for n in sizes
    ]
    found = list[pa.Table]()
    with closing(RingWriter(path, SMALL, kinds, patience=0.0)) as writer:
        reader = RingReader(path)
        for table in made:
            for start in range(0, len(table), 300):
                writer.write(table.slice(start, 300))
                if data.draw(st.booleans()) or writer.memory.head - reader._cursor > writer.memory.blocks // 3:
                    found += [m.rows for m in taken(reader)]
    found += [m.rows for m in taken(reader)]
    assert reader.take() is END and writer.slow == 0
    assert pa.concat_tables([kinds.empty_table(), *found]).equals(pa.concat_tables(made))
    reader.close()


def test_what_a_function_keeps_of_a_view_is_a_copy(path: Path) -> None:
    writer = RingWriter(path, SMALL, SCHEMA)
    reader, seen = RingReader(path), []

    def looked(table: pa.Table) -> pa.Table:
        seen.append(table["ts"].chunk(0).buffers()[1].address)
        return table.slice(1, 1) if len(seen) < 3 else table["ts"].to_pylist()

    inside = range(reader.memory.address, reader.memory.address + SMALL)
    writer.write(numbers(1, 2, 3))
    kept = reader.use(looked)
    assert isinstance(kept, Message) and seen[0] in inside and seen[1] not in inside
    writer.write(numbers(4, 5))
    found = reader.use(looked)
    assert isinstance(found, Message) and found.rows == [4, 5] and seen[2] in inside and len(seen) == 3
    writer.memory.bytes[writer.memory.at(0) + 64 : writer.memory.at(0) + 4096] = bytes(4032)
    assert kept.rows["ts"].to_pylist() == [2]
    writer.close()


def test_a_row_that_has_no_room_is_an_error(path: Path) -> None:
    schema = pa.schema([("text", pa.string())])
    writer = RingWriter(path, SMALL, schema)
    with pytest.raises(DataError, match=r"a row takes .* has room for"):
        writer.write(pa.table({"text": ["x" * SMALL]}))
    writer.close()


# --- room -------------------------------------------------------------------------------------------------------------------


def test_a_slow_reader_holds_up_the_writer_and_is_dropped_after_a_while(path: Path) -> None:
    writer = RingWriter(path, SMALL, SCHEMA, patience=0.2)
    slow, quick = RingReader(path), RingReader(path)
    begun, found = time.monotonic(), list[int]()
    for at in range(200):
        writer.write(numbers(at))
        found += [v for m in taken(quick) for v in m.rows["ts"].to_pylist()]
    assert time.monotonic() - begun > 0.2 and writer.slow == 1 and writer.dead == 0 and writer.waits
    assert found == list(range(200))
    with pytest.raises(DataError, match="has dropped this reader"):
        slow.take()
    writer.close()


def test_a_slow_reader_is_awaited_for_as_long_as_it_lives(path: Path) -> None:
    writer = RingWriter(path, SMALL, SCHEMA, patience=None)
    reader, found = RingReader(path), list[int]()

    def read() -> None:
        time.sleep(0.3)
        while (one := reader.take()) is not END:
            if isinstance(one, Message):
                found.extend(one.rows["ts"].to_pylist())

    thread = threading.Thread(target=read)
    thread.start()
    for at in range(200):
        writer.write(numbers(at))
    writer.close()
    thread.join(30)
    assert found == list(range(200)) and writer.slow == 0 and writer.waits


def test_a_reader_that_leaves_holds_up_nobody(path: Path) -> None:
    writer = RingWriter(path, SMALL, SCHEMA, patience=None)
    RingReader(path).close()
    reader = RingReader(path)
    for at in range(200):
        writer.write(numbers(at))
        assert len(taken(reader)) == 1
    assert writer.readers == 1 and writer.dead == 0
    writer.close()


def test_readers_may_join_later_and_places_are_used_again(path: Path) -> None:
    writer = RingWriter(path, SMALL, SCHEMA)
    for at in range(300):
        writer.write(numbers(at))
        if at % 3 == 0:
            with RingReader(path) as reader:
                writer.write(numbers(-at))
                assert [m.rows["ts"].to_pylist() for m in taken(reader)] == [[-at]]
    many = [RingReader(path) for _ in range(layout.MOST_READERS)]
    with pytest.raises(DataError, match="64 readers"):
        RingReader(path)
    for reader in many:
        reader.close()
    writer.close()


# --- files that are wrong ---------------------------------------------------------------------------------------------------


def changed(path: Path, word: int, value: int) -> None:
    """Write a word of the header."""
    with path.open("r+b") as file:
        file.seek(8 * word)
        file.write(value.to_bytes(8, "little"))


def test_a_ring_belongs_to_its_owner_alone(path: Path) -> None:
    before = os.umask(0)
    try:
        writer = RingWriter(path, SMALL, SCHEMA)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    with pytest.raises(DataError, match="open to others"):
        RingReader(path)
    writer.close()


def test_a_file_that_is_no_ring_is_left_as_it_is(path: Path) -> None:
    path.write_bytes(b"important" * 1000)
    path.chmod(0o600)
    with pytest.raises(DataError, match="is no ring, and is left as it is"):
        RingWriter(path, SMALL, SCHEMA)
    with pytest.raises(DataError, match="is no ring"):
        RingReader(path)
    assert path.read_bytes() == b"important" * 1000
    path.unlink()
    path.symlink_to("/etc/hostname")
    with pytest.raises(DataError, match="cannot be opened"):
        RingReader(path)


@pytest.mark.parametrize(
    ("word", "value", "said"),
    [(layout._VERSION, 7, "ring of version 7"), (layout._SIZE, 1 << 30, "damaged"), (layout._BLOCKS, 3, "damaged")],
)
def test_a_ring_of_another_version_or_size_is_refused(path: Path, word: int, value: int, said: str) -> None:
    writer = RingWriter(path, SMALL, SCHEMA)
    changed(path, word, value)
    with pytest.raises(DataError, match=said):
        RingReader(path)
    with pytest.raises(DataError, match=said):
        RingWriter(path, SMALL, SCHEMA)
    writer.close()


def test_a_ring_that_was_cut_off_is_refused(path: Path, tmp_path: Path) -> None:
    writer = RingWriter(path, SMALL, SCHEMA)
    copy = tmp_path / "copy"
    copy.write_bytes(path.read_bytes()[: SMALL // 2])
    copy.chmod(0o600)
    with pytest.raises(DataError, match="its header says 262,144 bytes, and the file has 131,072"):
        RingReader(copy)
    writer.close()


def test_two_writers_are_refused(path: Path) -> None:
    writer = RingWriter(path, SMALL, SCHEMA)
    with pytest.raises(DataError, match=f"has a writer already .process {os.getpid()}"):
        RingWriter(path, SMALL, SCHEMA)
    reader = RingReader(path)
    writer.write(numbers(1))
    assert len(taken(reader)) == 1
    writer.close()
    RingWriter(path, SMALL, SCHEMA).close()


def test_a_full_memory_is_refused_with_what_is_free(path: Path) -> None:
    free = os.statvfs("/dev/shm").f_bavail * os.statvfs("/dev/shm").f_frsize
    name = f"hydrophone-test-full-{os.getpid()}"
    with pytest.raises(DataError, match=r"/dev/shm is full: the ring needs .* are free"):
        RingWriter(layout.ring_path(name), 4 * free, SCHEMA)
    assert not [p for p in Path("/dev/shm").iterdir() if name in p.name]


def test_a_ring_that_is_not_there_is_waited_for(path: Path) -> None:
    with pytest.raises(DataError, match="there is no ring at"):
        RingReader(path, patience=0.05)
    kept = list[RingWriter]()
    timer = threading.Timer(0.2, lambda: kept.append(RingWriter(path, SMALL, SCHEMA)))
    timer.start()
    assert RingReader(path, patience=30).memory.schema == SCHEMA
    timer.join()


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be made: No such file"):
        RingWriter(tmp_path / "no" / "ring", SMALL, SCHEMA)


def test_bytes_that_somebody_else_has_changed_are_noticed(path: Path) -> None:
    writer = RingWriter(path, SMALL, SCHEMA)
    reader = RingReader(path)
    writer.write(numbers(1))
    writer.memory.bytes[writer.memory.at(0) + 200] ^= 1
    with pytest.raises(DataError, match="checksum of block 0 does not match"):
        reader.take()
    writer.memory.message(0)[0] = 5
    with pytest.raises(DataError, match="block 0 says that it is 5"):
        reader.take()
    writer.close()


def test_parameters_of_rings_are_checked(path: Path) -> None:
    for options, said in (
        ({"size": "1kB"}, "size must be at least"),
        ({"size": "much"}, "size must be a number of bytes"),
        ({"readers": 65}, "readers must be between 0 and 64"),
        ({"patience": "-1s"}, "patience must not be negative"),
    ):
        with pytest.raises(ParameterError, match=said):
            hp.write.ring(path, **options)  # type: ignore[arg-type]
    writer = RingWriter(path, SMALL, SCHEMA)
    for options, said in (
        ({"time": "when"}, "no column 'when'; the ring has: ts, value"),
        ({"time": "ts", "lost": "no"}, "lost must be"),
        ({"time": "ts", "share": (0, 2)}, "share needs a key"),
        ({"time": "ts", "key": "value", "share": (2, 2)}, "share must be"),
    ):
        with pytest.raises(ParameterError, match=said):
            hp.read.ring(path, **options)  # type: ignore[arg-type]
    writer.close()


# --- as sink and source -----------------------------------------------------------------------------------------------------


def pushed(progress: object = None) -> hp.Stream:
    return hp.from_arrow(SCHEMA, time="ts", progress=progress or hp.delayed(5))  # type: ignore[arg-type]


def test_marks_travel_with_the_rows(path: Path) -> None:
    """Results come as early as in the process that writes, also where no row is left to carry the mark."""
    rows, found = pushed(), list[pa.Table]()
    with hp.Graph() as writing, hp.Graph() as reading:
        writing.subscribe(rows.where(hp.col("value") < 10), hp.write.ring(path))
        read = hp.read.ring(path, time="ts")
        reading.subscribe(read.tumble(10).agg(n=hp.count()), found.append)
        reading.start()
        writing.push(rows, numbers(1, 2, 12, 5))
        writing.push(rows, numbers(16, 14))  # the filter drops both: the mark is 11 all the same
        begun = time.monotonic()
        while not found and time.monotonic() - begun < 30:
            time.sleep(0.001)
        assert found[0]["n"].to_pylist() == [3]


def test_a_writer_that_fails_says_why(path: Path) -> None:
    rows = pushed()
    with hp.Graph() as writing, hp.Graph() as reading:
        ring = hp.write.ring(path)
        windows = rows.signal("value").sample(1, fill=hp.hold(max_gap=5)).window(1)
        failing = writing.subscribe(windows.map(burning).overlap_add().events("value"), ring)
        subscription = reading.subscribe(hp.read.ring(path, time="ts"), lambda table: None)
        reading.start()
        ring.writer.wait_for_readers(1, 30)
        writing.push(rows, numbers(1, 9, 30))
        assert subscription.wait(30) and failing.error is not None
        assert "the sensor burns" in str(failing.error) and "failed: " in str(subscription.error)
        assert "the sensor burns" in str(subscription.error)


def burning(windows: np.ndarray) -> np.ndarray:
    """Fails once data comes."""
    if len(windows) and np.any(windows > 0):
        raise ValueError("the sensor burns")
    return windows


def test_windows_are_refused(path: Path) -> None:
    windows = pushed().signal("value").sample(1, fill=hp.hold(max_gap=5)).window(4)
    with hp.Graph() as graph, pytest.raises(UnsupportedError, match="windows have no place in a ring"):
        graph.subscribe(windows, hp.write.ring(path))
    assert not path.exists()


def test_readers_that_do_not_come_are_an_error(path: Path) -> None:
    rows = pushed()
    with hp.Graph() as graph:
        subscription = graph.subscribe(rows, hp.write.ring(path, readers=2, patience="50ms"))
        graph.push(rows, numbers(1))
        assert "0 of 2 readers have come" in str(subscription.error)


def test_a_whole_answer_goes_through_a_ring(path: Path) -> None:
    made = hp.read.synthetic("1ms", rows=20_000, keys=7)
    found = []
    thread = threading.Thread(target=lambda: found.append(hp.read.ring(path, key="key", time="ts").to_arrow()))
    thread.start()
    made.save(hp.write.ring(path, size="1MB"))
    thread.join(60)
    assert found[0].sort_by("ts").equals(made.to_arrow().sort_by("ts"))
