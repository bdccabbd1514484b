"""Segments as values against plain NumPy arrays, and proofs that nothing is copied that need not be."""

import copy
import gc
import pickle
import threading
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from hydrophone.errors import DataError, ParameterError, SignalTypeError
from hydrophone.model.sigseg import SigSeg
from hydrophone.model.time import MAX_TIME, MIN_TIME
from hydrophone.model.timebase import Timebase

GRID = Timebase.every("20ms")
AUDIO = Timebase.every("44.1kHz", origin="2024-03-01")
MS = 10**6


def chain(*lengths: int, first: int = 0, base: Timebase = GRID) -> SigSeg:
    """Samples 0, 1, 2, … in pieces of these lengths, each a part of one array."""
    whole = np.arange(sum(lengths), dtype=np.float64)
    seg = SigSeg(base, first, whole[:0])
    for length in lengths:
        seg = seg.append(SigSeg(base, seg.next, whole[len(seg) : len(seg) + length]))
    return seg


class Values(RuleBasedStateMachine):
    """Segments that share buffers in any way behave as if each had a copy of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.pairs: list[tuple[SigSeg, np.ndarray]] = []
        self.lent: list[tuple[np.ndarray, np.ndarray]] = []

    def keep(self, seg: SigSeg, model: np.ndarray) -> None:
        if len(model) < 500:
            self.pairs = [*self.pairs[-11:], (seg, model)]

    def some(self, data: st.DataObject) -> tuple[SigSeg, np.ndarray]:
        if not self.pairs:
            self.create(3)
        return data.draw(st.sampled_from(self.pairs))

    @rule(length=st.integers(0, 6))
    def create(self, length: int) -> None:
        samples = np.random.default_rng(length).integers(0, 100, length)
        self.lent.append((samples, samples.copy()))
        self.keep(SigSeg(GRID, 0, samples), samples.copy())

    @rule(data=st.data(), times=st.integers(1, 12))
    def append(self, data: st.DataObject, times: int) -> None:
        seg, model = self.some(data)
        for _ in range(times):
            other, its = self.some(data)
            other, its = other[:20], its[:20]  # Else lengths would double and double.
            moved = SigSeg(GRID, seg.next, other.materialize()) if other.first != seg.next else other
            seg, model = seg.append(moved), np.concatenate([model, its])
        self.keep(seg, model)

    @rule(data=st.data())
    def split_and_join(self, data: st.DataObject) -> None:
        seg, model = self.some(data)
        at = data.draw(st.integers(0, len(seg)))
        self.keep(seg[:at].append(seg[at:]), model.copy())

    @rule(data=st.data())
    def subseg(self, data: st.DataObject) -> None:
        seg, model = self.some(data)
        start = data.draw(st.integers(0, len(seg)))
        length = data.draw(st.integers(0, len(seg) - start))
        part = seg.subseg(start, length)
        assert part.first == seg.first + start
        self.keep(part, model[start : start + length].copy())

    @rule(data=st.data())
    def write(self, data: st.DataObject) -> None:
        seg, model = self.some(data)
        start = data.draw(st.integers(0, len(seg)))
        length = data.draw(st.integers(0, len(seg) - start))
        new = np.arange(length) - data.draw(st.integers(1, 10**6))
        seg.write(start, new)
        model[start : start + length] = new

    @rule(data=st.data())
    def materialize(self, data: st.DataObject) -> None:
        seg, _ = self.some(data)
        array = seg.materialize()
        self.lent.append((array, array.copy()))

    @rule(data=st.data())
    def lend_pieces(self, data: st.DataObject) -> None:
        seg, _ = self.some(data)
        self.lent.extend((block, block.copy()) for block in seg.pieces())

    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        if self.pairs:
            self.pairs.pop(data.draw(st.integers(0, len(self.pairs) - 1)))

    @invariant()
    def every_segment_is_its_model(self) -> None:
        for seg, model in self.pairs:
            assert seg.to_numpy().tolist() == model.tolist()
            assert len(seg) == len(model)

    @invariant()
    def arrays_outside_never_change(self) -> None:
        for array, before in self.lent:
            assert (array == before).all()


TestValues = Values.TestCase


lengths = st.lists(st.integers(0, 5), max_size=20)


@given(lengths, st.integers(-50, 50))
def test_reading_equals_concatenation(pieces: list[int], first: int) -> None:
    seg, whole = chain(*pieces, first=first), np.arange(sum(pieces), dtype=float)
    assert (len(seg), seg.first, seg.next) == (len(whole), first, first + len(whole))
    assert [seg[i] for i in range(len(seg))] == whole.tolist()
    assert [seg[i - len(seg)] for i in range(len(seg))] == whole.tolist()
    assert list(seg) == whole.tolist()
    assert [len(block) for block in seg.pieces()] == [length for length in pieces if length]
    assert seg.to_numpy().tolist() == seg.materialize().tolist() == np.asarray(seg).tolist() == whole.tolist()


@given(lengths, st.integers(-2, 110), st.integers(-2, 110))
def test_slices_are_pythons(pieces: list[int], start: int, stop: int) -> None:
    seg, whole = chain(*pieces), np.arange(sum(pieces), dtype=float)
    assert seg[start:stop].to_numpy().tolist() == whole[start:stop].tolist()
    assert seg[start:].to_numpy().tolist() == whole[start:].tolist()
    assert seg[:stop].to_numpy().tolist() == whole[:stop].tolist()


@pytest.mark.parametrize("base", [GRID, AUDIO])
@given(pieces=lengths, data=st.data())
def test_time_equals_a_search_in_all_instants(base: Timebase, pieces: list[int], data: st.DataObject) -> None:
    seg = chain(*pieces, first=10**9, base=base)
    instants = base.instant(np.arange(seg.first, seg.next + 1))
    assert (seg.start, seg.end) == (instants[0], instants[-1])
    times = st.integers(seg.start - 30 * MS, seg.end + 30 * MS) | st.sampled_from(instants.tolist())
    times |= st.sampled_from([MIN_TIME, MAX_TIME])
    t0, t1 = data.draw(times), data.draw(times)
    kept = (instants[:-1] >= t0) & (instants[:-1] < t1)
    part = seg.between(t0, t1)
    assert part.to_numpy().tolist() == np.flatnonzero(kept).tolist()
    if seg.start <= t0 < seg.end:
        assert seg.at(t0) == np.searchsorted(instants, t0, "right") - 1
    else:
        with pytest.raises(ParameterError, match="outside the segment"):
            seg.at(t0)


@given(lengths, lengths)
def test_equality_does_not_depend_on_the_pieces(one: list[int], two: list[int]) -> None:
    a, b = chain(*one), chain(*two)
    assert (a == b) == (len(a) == len(b))
    assert (a[1:] == b[1:]) == (len(a) == len(b))


def test_equality_looks_at_everything() -> None:
    seg = SigSeg(GRID, 0, [1.0, 2.0])
    assert seg == SigSeg(GRID, 0, [1.0, 2.0])
    others = [
        SigSeg(GRID, 1, [1.0, 2.0]),
        SigSeg(AUDIO, 0, [1.0, 2.0]),
        SigSeg(GRID, 0, [1.0, 3.0]),
        SigSeg(GRID, 0, [1.0]),
        SigSeg(GRID, 0, [1, 2]),
        SigSeg(GRID, 0, [[1.0], [2.0]]),
        "text",
    ]
    assert all(seg != other for other in others)
    assert SigSeg(GRID, 0, [np.nan]) != SigSeg(GRID, 0, [np.nan])
    with pytest.raises(TypeError, match="unhashable"):
        hash(seg)


# --- nothing is copied ----------------------------------------------------------------------------------------


def test_making_appending_and_cutting_copy_nothing() -> None:
    left, right = np.arange(1000.0), np.arange(1000.0)
    seg = SigSeg(GRID, 0, left).append(SigSeg(GRID, 1000, right)).subseg(500, 1000).between(0, MAX_TIME)
    first, second = seg.pieces()
    assert np.shares_memory(first, left[500:])
    assert np.shares_memory(second, right[:500])
    assert not first.flags.writeable


def test_one_piece_is_materialized_without_a_copy() -> None:
    samples = np.arange(10)
    assert np.shares_memory(SigSeg(GRID, 0, samples)[2:7].materialize(), samples)


def test_several_pieces_are_joined_once() -> None:
    seg = chain(3, 4)
    joined = seg.materialize()
    assert joined.flags.c_contiguous
    assert not joined.flags.writeable
    for again in (seg.materialize(), np.asarray(seg), *seg.pieces(), seg.subseg(1, 5).materialize()):
        assert np.shares_memory(joined, again)


def test_a_strided_piece_is_joined() -> None:
    samples = np.arange(10)[::2]
    joined = SigSeg(GRID, 0, samples).materialize()
    assert joined.flags.c_contiguous
    assert joined.tolist() == samples.tolist()


def test_to_numpy_belongs_to_the_caller() -> None:
    seg = SigSeg(GRID, 0, [1, 2, 3])
    mine = seg.to_numpy()
    mine[0] = 9
    assert seg[0] == 1


def test_array_protocol() -> None:
    seg = chain(2, 2)
    assert np.asarray(seg, dtype=np.float32).dtype == np.float32
    assert np.array(seg).flags.writeable
    assert not np.shares_memory(np.array(seg), seg.materialize())
    assert np.add(seg, 1).tolist() == [1, 2, 3, 4]


# --- copy on write --------------------------------------------------------------------------------------------


def buffers(seg: SigSeg) -> list[np.ndarray]:
    return [piece.buffer.array for piece in seg._pieces()]


def owned(*lengths: int) -> SigSeg:
    """A chain that has been written everywhere, so that its buffers are its own."""
    seg = chain(*lengths)
    seg.write(0, np.arange(len(seg)) + 100.0)
    return seg


def test_writing_leaves_the_given_array_alone() -> None:
    samples = np.arange(4)
    seg = SigSeg(GRID, 0, samples)
    seg.write(1, [20, 30])
    assert samples.tolist() == [0, 1, 2, 3]
    assert seg.to_numpy().tolist() == [0, 20, 30, 3]


def test_a_segment_of_ones_own_is_written_in_place() -> None:
    seg = owned(3, 4)
    before = buffers(seg)
    seg.write(1, [7.0, 8.0, 9.0])
    assert all(a is b for a, b in zip(before, buffers(seg), strict=True))
    assert seg.to_numpy().tolist() == [100, 7, 8, 9, 104, 105, 106]


def test_only_the_touched_piece_is_copied() -> None:
    seg = owned(3, 4)
    other = seg[:]
    before = buffers(seg)
    seg.write(4, -1.0)
    after = buffers(seg)
    assert after[0] is before[0]
    assert after[1] is not before[1]
    assert (seg[4], other[4]) == (-1, 104)


@pytest.mark.parametrize("share", [lambda s: s[:], lambda s: s[1:2], lambda s: s.append(SigSeg(GRID, s.next, [1.0]))])
def test_in_place_again_once_the_other_holder_is_gone(share: object) -> None:
    seg = owned(5)
    other = share(seg)
    (before,) = buffers(seg)
    del other
    seg.write(0, 5.0)
    assert buffers(seg)[0] is before
    other = share(seg)
    seg.write(1, 6.0)
    assert buffers(seg)[0] is not before
    assert 6.0 not in list(other)


def test_a_lent_view_keeps_its_values() -> None:
    seg = owned(3, 4)
    joined, (block, *_) = seg.materialize(), list(seg.pieces())
    seg.write(0, -1.0)
    assert (joined[0], block[0], seg[0]) == (100, 100, -1)


def test_a_long_chain_that_grew_by_append_is_written_in_place() -> None:
    seg = owned(1)
    for _ in range(50):
        seg = seg.append(SigSeg(GRID, seg.next, [0.0]))
    seg.write(0, np.zeros(len(seg)))
    before = buffers(seg)
    seg.write(0, np.ones(len(seg)))
    assert all(a is b for a, b in zip(before, buffers(seg), strict=True))


def test_write_refuses() -> None:
    seg = SigSeg(GRID, 0, np.arange(4, dtype=np.int32))
    for i, values in ((-1, [1]), (3, [1, 2]), (5, np.int32([]))):
        with pytest.raises(ParameterError, match=r"^write: "):
            seg.write(i, values)
    for values in ([1.5], [[1]], ["a"]):
        with pytest.raises(SignalTypeError, match=r"^write: "):
            seg.write(0, values)
    with pytest.raises(SignalTypeError, match=r"shape \(3,\) into float64 in 2 channels"):
        SigSeg(GRID, 0, np.zeros((4, 2))).write(0, [1, 2, 3])


# --- many pieces, threads, memory -----------------------------------------------------------------------------


def test_many_thousand_pieces() -> None:
    pieces = 20_000
    seg = SigSeg(GRID, 0, [0])
    for k in range(1, pieces):
        seg = seg.append(SigSeg(GRID, k, [k]))
    assert seg[pieces // 2] == pieces // 2
    assert seg.at(123 * 20 * MS) == 123
    assert sum(1 for _ in seg) == pieces
    assert seg == SigSeg(GRID, 0, np.arange(pieces))
    assert seg.materialize().tolist() == list(range(pieces))
    copies = pickle.loads(pickle.dumps(seg))
    assert copies == seg


def seconds_to_append(pieces: int) -> float:
    one = np.zeros(1)
    parts = [SigSeg(GRID, k, one) for k in range(pieces)]
    start = time.perf_counter()
    seg = parts[0]
    for part in parts[1:]:
        seg = seg.append(part)
    return time.perf_counter() - start


def test_append_takes_constant_time() -> None:
    # Quadratic growth would make the ratio 400; 20 is linear, and the rest is for a busy machine.
    few, many = min(seconds_to_append(1000) for _ in range(5)), min(seconds_to_append(20_000) for _ in range(3))
    assert many / few < 100


def test_a_sliding_window_holds_only_what_it_shows() -> None:
    seg = SigSeg(GRID, 0, np.zeros(100))
    tracemalloc.start()
    try:
        for k in range(3000):
            seg = seg.append(SigSeg(GRID, seg.next, np.full(100, float(k))))
            seg = seg.subseg(max(len(seg) - 1000, 0), min(len(seg), 1000))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # All that passed would be 2.4 MB, the window is 8 kB.
    assert held < 100_000
    assert seg[-1] == 2999


def test_a_small_part_lets_go_of_the_rest() -> None:
    part = chain(10, 10, 10)[12:14]
    assert len(part._chain.pieces) == 1
    # Three of four pieces, but few of the samples: the large one must go.
    tail = SigSeg(GRID, 0, np.zeros(1000)).append(chain(1, 1, 1, first=1000))[1000:]
    assert max(piece.stop - piece.start for piece in tail._chain.pieces) == 1
    short = SigSeg(GRID, 0, [1.0])
    long = short
    for _ in range(100):
        long = long.append(SigSeg(GRID, long.next, [1.0]))
    assert len(short._chain.pieces) == 1


def test_branches_of_one_segment_do_not_see_each_other() -> None:
    trunk = chain(*[1] * 30)
    left, right = (trunk.append(SigSeg(GRID, 30, [value])) for value in (-1.0, -2.0))
    left = left.append(SigSeg(GRID, 31, [-3.0]))
    assert (left[30], left[31], right[30], len(trunk)) == (-1, -3, -2, 30)


def test_threads_that_append_to_one_segment() -> None:
    trunk = chain(*[1] * 30)
    results: dict[int, SigSeg] = {}

    def grow(me: int) -> None:
        seg = trunk
        for _ in range(300):
            seg = seg.append(SigSeg(GRID, seg.next, [float(me)]))
        results[me] = seg

    threads = [threading.Thread(target=grow, args=(me,)) for me in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(set(seg[30:].to_numpy()) == {me} and len(seg) == 330 for me, seg in results.items())


def test_counts_return_to_one_holder() -> None:
    seg = owned(*[2] * 20)
    others = [seg[a:b] for a in range(0, 40, 3) for b in range(a, 40, 5)]
    del others
    gc.collect()
    assert seg._chain.holders == 1
    assert {piece.buffer.holders for piece in seg._pieces()} == {1}


# --- types and errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["?", "i2", "u8", "f4", "f8", "c8", "c16", [("x", "f8"), ("y", "i4")]])
def test_sample_types(dtype: object) -> None:
    samples = np.ones(4, dtype)
    seg = SigSeg(GRID, 0, samples[:1]).append(SigSeg(GRID, 1, samples[1:]))
    assert seg.dtype == samples.dtype
    assert seg.materialize().dtype == samples.dtype
    assert seg == SigSeg(GRID, 0, samples)
    seg.write(0, np.zeros(2, dtype))
    assert (seg[1], seg[2]) == (np.zeros(1, dtype)[0], samples[2])


def test_channels() -> None:
    samples = np.arange(12.0).reshape(6, 2)
    seg = SigSeg(GRID, 0, samples[:4]).append(SigSeg(GRID, 4, samples[4:]))
    assert (seg.channels, len(seg)) == (2, 6)
    assert SigSeg(GRID, 0, samples[:, 0]).channels is None
    row = seg[5]
    row[0] = -1
    assert seg[5].tolist() == [10, 11]
    seg.write(1, [7, 8])
    seg.write(3, [[1, 2], [3, 4]])
    expected = samples.copy()
    expected[1], expected[3:5] = [7, 8], [[1, 2], [3, 4]]
    assert seg.materialize().tolist() == expected.tolist()
    assert seg.subseg(0, 0).to_numpy().shape == (0, 2)
    assert [row.tolist() for row in seg] == expected.tolist()


@pytest.mark.parametrize("samples", [5, [[[1]]], ["a"], [None], [b"x"]])
def test_samples_that_are_none(samples: object) -> None:
    with pytest.raises(SignalTypeError, match=r"^SigSeg: samples must"):
        SigSeg(GRID, 0, samples)


def test_a_gap_names_indices_and_instants() -> None:
    with pytest.raises(DataError) as error:
        SigSeg(GRID, 0, [1, 2]).append(SigSeg(GRID, 5, [3]))
    assert str(error.value) == (
        "append: a gap of 3 samples: this segment ends before index 2 (1970-01-01T00:00:00.040000000), "
        "the other starts at index 5 (1970-01-01T00:00:00.100000000)"
    )


def test_an_overlap_names_indices_and_instants() -> None:
    with pytest.raises(DataError) as error:
        SigSeg(GRID, 0, [1, 2]).append(SigSeg(GRID, 1, [3]))
    assert str(error.value) == (
        "append: an overlap of 1 samples: this segment ends before index 2 (1970-01-01T00:00:00.040000000), "
        "the other starts at index 1 (1970-01-01T00:00:00.020000000)"
    )


@pytest.mark.parametrize(
    ("other", "rule"),
    [
        (SigSeg(AUDIO, 2, [3.0]), "timebases differ"),
        (SigSeg(GRID, 2, np.float32([3])), "samples differ: float64 and float32"),
        (SigSeg(GRID, 2, [[3.0, 4.0]]), "samples differ: float64 and float64 in 2 channels"),
        (np.array([3.0]), "expected a SigSeg, got ndarray"),
    ],
)
def test_append_refuses_another_kind(other: object, rule: str) -> None:
    with pytest.raises(SignalTypeError, match=rule):
        SigSeg(GRID, 0, [1.0, 2.0]).append(other)


@pytest.mark.parametrize(("start", "length"), [(-1, 1), (0, 5), (5, 0), (2, -1)])
def test_subseg_refuses(start: int, length: int) -> None:
    with pytest.raises(ParameterError, match=r"^subseg: "):
        SigSeg(GRID, 0, [1, 2, 3, 4]).subseg(start, length)


def test_positions_outside() -> None:
    seg = SigSeg(GRID, 0, [1, 2])
    for i in (2, -3):
        with pytest.raises(IndexError, match="of a segment of 2 samples"):
            seg[i]
    with pytest.raises(ParameterError, match="step 1"):
        seg[::2]


def test_an_empty_segment() -> None:
    empty = SigSeg(GRID, 7, np.array([], np.float32))
    assert (len(empty), empty.start, empty.end) == (0, empty.end, 140 * MS)
    assert empty.materialize().dtype == np.float32
    assert list(empty.pieces()) == []
    assert empty.append(SigSeg(GRID, 7, np.float32([1]))).to_numpy().tolist() == [1]
    empty.write(0, np.float32([]))


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_copies_are_values(duplicate: object) -> None:
    seg = chain(3, 4, first=5, base=AUDIO)
    other = duplicate(seg)
    assert other == seg
    other.write(0, -1.0)
    assert (seg[0], other[0]) == (0, -1)


def test_repr() -> None:
    assert repr(SigSeg(AUDIO, 0, np.zeros((3, 2), np.float32))) == (
        "SigSeg(3 x float32 in 2 channels every 10000000/441ns, indices 0 to 3, from 2024-03-01T00:00:00.000000000)"
    )
