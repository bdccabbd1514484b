"""Put packets together again from the damaged copies that several receivers heard.

Receivers listen to the same sender. Each loses packets, flips bits, and has a clock of its own; receivers near each other suffer the same
disturbances. Beacons, whose content everybody knows, say how late each receiver is and which bits are wrong in it. Bits that are wrong in
two receivers at once put both into one cluster. Then the copies of a packet vote on each of its bits, and those of a large cluster have
less to say. Packets, errors and losses are made with a known truth.

``hydrophone demo netmon`` runs it in this process and on Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import hydrophone as hp
from hydrophone.apps.report import Report, at_least, check_picture, demo_options, equal_on_spark, write_picture

Array = npt.NDArray[Any]
Groups = tuple[tuple[int, ...], ...]
"""Clusters of receivers, by their numbers."""

WORDS = 16
"""Of 64 bits, in a packet."""
RECEIVERS = 7
EVERY = 8
"""One packet of so many is a beacon."""
LATE = 3
"""Words by which a receiver's clock may be late, at most."""
BEACON = np.random.default_rng(11).integers(-(2**63), 2**63 - 1, WORDS)
"""What every beacon says."""
BLOCK = 512
"""Packets whose bits are counted at once; their counters fit into the cache."""
SET_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1)
"""Of every byte."""
RELATED = 0.15
"""From this correlation of their errors on, receivers are in one cluster."""


# --- the queries --------------------------------------------------------------------------------------------------------


def lateness(receiver: hp.UniformSignal) -> hp.UniformSignal:
    """By how many words a receiver is late, at every beacon."""
    return receiver.window(WORDS + LATE, hop=EVERY * WORDS).reduce(best_lag)


def copies(receivers: Sequence[hp.UniformSignal], lags: Sequence[int], every: int = 1) -> hp.Windowed:
    """What all receivers heard of a packet (or of one of so many), aligned and end to end; zeros where one has lost it."""
    aligned = [receiver.shift(-lag).continuous(0) for receiver, lag in zip(receivers, lags, strict=True)]
    packets = [receiver.window(WORDS, hop=every * WORDS) for receiver in aligned]
    return together(packets)


def together(packets: Sequence[hp.Windowed]) -> hp.Windowed:
    """Windows of several signals end to end; in halves, so that few are copied often."""
    if len(packets) == 1:
        return packets[0]
    half = len(packets) // 2
    return together(packets[:half]).combine(together(packets[half:]), end_to_end)


def correlations(beacons: hp.Windowed, over: int = 64) -> hp.Windowed:
    """How errors of each two receivers are correlated, over so many beacons: a matrix, row by row."""
    return beacons.map(shared_errors).average(over).map(correlation)


def reconstructed(packets: hp.Windowed, weights: Sequence[int]) -> hp.Windowed:
    """Every packet as its copies vote."""
    return packets.map(vote_of(weights))


def end_to_end(left: Array, right: Array) -> Array:
    """Words of some receivers and of others."""
    return np.concatenate([left, right], axis=1)


def ones(words: Array) -> Array:
    """How many bits of each word are set."""
    return SET_BITS[np.ascontiguousarray(words).view(np.uint8)].reshape(*words.shape, 8).sum(axis=-1)


def best_lag(windows: Array) -> Array:
    """The lag at which fewest bits differ from the beacon."""
    wrong = [ones(windows[:, lag : lag + WORDS] ^ BEACON).sum(axis=1) for lag in range(LATE + 1)]
    return np.argmin(wrong, axis=0)


def shared_errors(windows: Array) -> Array:
    """By pair of receivers: bits that are wrong in both, bits that are wrong in the first, and bits that both have."""
    copy = windows.reshape(-1, RECEIVERS, WORDS)
    there = (copy != 0).any(axis=2)
    wrong = np.where(there[:, :, None], copy ^ BEACON, 0)
    pairs = there[:, :, None] & there[:, None, :]
    both = np.stack([ones(wrong & wrong[:, i : i + 1]).sum(axis=2) for i in range(RECEIVERS)], axis=1)
    single = ones(wrong).sum(axis=2)[:, :, None] * pairs
    return np.stack([both, single, 64 * WORDS * pairs], axis=1).reshape(len(windows), -1).astype(float)


def correlation(means: Array) -> Array:
    """Pearson's correlation of wrong bits."""
    both, single, bits = np.moveaxis(means.reshape(-1, 3, RECEIVERS, RECEIVERS), 1, 0)
    both, first, second = (x / np.maximum(bits, 1e-9) for x in (both, single, single.transpose(0, 2, 1)))
    spread = np.sqrt(first * (1 - first) * second * (1 - second))
    return ((both - first * second) / np.maximum(spread, 1e-12)).reshape(len(means), -1)


def vote_of(weights: Sequence[int]) -> Callable[[Array], Array]:
    """A function of windows: every bit as the copies say that have more than half of the weight; a lost copy has none.

    Bit k of the 64 counters of a word stands in the k-th of some words, so that a vote is added to all counters at once. They begin so
    much below a power of two that what is carried out of them is the majority.
    """
    bits = sum(weights).bit_length()

    def vote(windows: Array) -> Array:
        copy = windows.reshape(-1, len(weights), WORDS)
        out = np.zeros((len(copy), WORDS), np.int64)
        for start in range(0, len(copy), BLOCK):
            _count(copy[start : start + BLOCK], weights, bits, out[start : start + BLOCK])
        return out

    return vote


def _count(copy: Array, weights: Sequence[int], bits: int, out: Array) -> None:
    """Set the bits of `out` that have the majority among the copies of some packets."""
    total = (copy[:, :, 0] != 0) @ np.array(weights)
    begin = 2**bits - 1 - total // 2
    counters = [np.repeat(-(begin >> bit & 1), WORDS).reshape(-1, WORDS) for bit in range(bits)]
    carry = np.empty_like(out)
    for number, weight in enumerate(weights):
        for first in (bit for bit in range(bits) if weight >> bit & 1):
            np.copyto(carry, copy[:, number])
            for counter in counters[first:]:
                counter ^= carry
                # It was carried where a bit of the vote has made a zero.
                carry &= ~counter
            out |= carry


def clusters_of(matrix: Array) -> Groups:
    """Receivers that are related, directly or through others."""
    from scipy.sparse.csgraph import connected_components

    count, label = connected_components(matrix > RELATED)
    return tuple(tuple(np.flatnonzero(label == number).tolist()) for number in range(count))


def weights_of(matrix: Array, errors: Array, most: int = 31) -> tuple[int, ...]:
    """Weights of receivers that share `most`: the best linear ones for errors of these rates and correlations, in whole numbers.

    Who is related to many has little to say, and who is often wrong has little to say.
    """
    spread = np.sqrt(np.maximum(errors * (1 - errors), 1e-9))
    best = np.linalg.solve((matrix + 0.01 * np.eye(len(matrix))) * np.outer(spread, spread), 1 - 2 * errors)
    share = np.maximum(best, 0) / np.maximum(best, 0).sum()
    return tuple(int(w) for w in np.round(share * most))


# --- the network --------------------------------------------------------------------------------------------------------

ROOMS: Groups = ((0, 1, 2, 3), (4, 5), (6,))
"""Which receivers truly share disturbances."""
PLACES = np.array([[1.5, 1.2], [2.6, 2.4], [1.2, 3.1], [3.2, 1.1], [8.2, 2.8], [9.1, 1.6], [6.0, 6.2]])
"""Where they are, in metres."""
LOST = 0.05
"""Share of the packets that a receiver loses."""
DISTURBED = 0.15
"""Share of the packets in which a room has a burst of errors."""


@dataclass(frozen=True)
class Traffic:
    """What each receiver heard, and the truth.

    Attributes
    ----------
    tables : by receiver, columns `sender`, `t` and `values`: a row per run of packets of which none was lost
    packets : a row per packet
    lags : by how many words each receiver is late
    """

    tables: tuple[pa.Table, ...]
    packets: Array
    lags: Array

    @property
    def signals(self) -> list[hp.UniformSignal]:
        """The receivers as queries; a word takes a microsecond."""
        return [
            hp.from_segments(table, key="sender", time="t", period="1us", name=f"receiver {number}")
            for number, table in enumerate(self.tables)
        ]


def transmit(count: int = 20_000, error_rate: float = 0.003, *, seed: int = 1) -> Traffic:
    """Packets one after the other; `error_rate` is the share of bits that a receiver flips, beside the bursts of its room."""
    rng = np.random.default_rng(seed)
    packets = rng.integers(-(2**63), 2**63 - 1, (count, WORDS))
    packets[::EVERY] = BEACON
    lags = rng.integers(0, LATE + 1, RECEIVERS)
    tables = []
    for room in ROOMS:
        burst = _bursts(rng, count)
        for receiver in room:
            errors = _flips(rng, count, error_rate * (0.6 + 0.1 * receiver))
            # The others of the room are disturbed in nearly all the same bits.
            errors ^= burst & (
                rng.integers(-(2**63), 2**63 - 1, burst.shape) | rng.integers(-(2**63), 2**63 - 1, burst.shape)
            )
            heard = rng.random(count) >= LOST
            heard[[0, -1]] = True
            tables.append(_segments(packets ^ errors, heard, int(lags[receiver])))
    return Traffic(tuple(tables), packets, lags)


def _bursts(rng: np.random.Generator, count: int) -> Array:
    """Bits that a disturbance flips in a room: half of those in four words that follow each other, in some packets."""
    errors = np.zeros((count, WORDS), np.int64)
    hit = np.flatnonzero(rng.random(count) < DISTURBED)
    words = rng.integers(0, WORDS - 3, len(hit))[:, None] + np.arange(4)
    errors[hit[:, None], words] = rng.integers(-(2**63), 2**63 - 1, words.shape)
    return errors


def _flips(rng: np.random.Generator, count: int, rate: float) -> Array:
    """Bits that are flipped each by itself."""
    errors = np.zeros(count * WORDS, np.int64)
    number = rng.binomial(len(errors) * 64, rate)
    np.bitwise_xor.at(errors, rng.integers(0, len(errors), number), np.left_shift(1, rng.integers(0, 64, number)))
    return errors.reshape(count, WORDS)


def _segments(packets: Array, heard: Array, lag: int) -> pa.Table:
    """Runs of packets between those that were lost, as late as the receiver is."""
    kept = np.flatnonzero(heard)
    starts = np.flatnonzero(np.diff(kept, prepend=-2) > 1)
    offsets = np.append(starts, len(kept)) * WORDS
    values = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(packets[kept].reshape(-1)))
    times = (kept[starts] * WORDS + lag) * 1_000
    return pa.table({"sender": ["station"] * len(starts), "t": times, "values": values})


# --- what was found -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """What the queries say about one traffic.

    Attributes
    ----------
    lags, matrix, clusters, weights : of the receivers
    rates : share of the packets that are right in every bit, by way of reconstruction
    answer : the packets as the copies vote by their weights
    """

    lags: tuple[int, ...]
    matrix: Array
    clusters: Groups
    weights: tuple[int, ...]
    rates: dict[str, float]
    answer: pa.Table


WAYS = ("best receiver alone", "each copy one vote", "each cluster one vote", "votes by correlation")
CHOSEN = "chosen on beacons"


def monitor(traffic: Traffic) -> Found:
    """Align, correlate, cluster and reconstruct."""
    receivers = traffic.signals
    lags = tuple(int(np.median(lateness(receiver).to_arrow()["value"].to_numpy())) for receiver in receivers)
    beacons, packets = copies(receivers, lags, EVERY), copies(receivers, lags)
    matrix = _rows(correlations(beacons).to_arrow()).mean(axis=0).reshape(RECEIVERS, RECEIVERS)
    totals = _rows(beacons.map(shared_errors).to_arrow()).sum(axis=0).reshape(3, RECEIVERS, RECEIVERS)
    _, wrong, bits = totals.diagonal(axis1=1, axis2=2)
    errors, clusters = wrong / bits, clusters_of(matrix)
    shares = {member: 12 // len(members) for members in clusters for member in members}
    ways = dict(
        zip(
            WAYS,
            (
                tuple(int(r == errors.argmin()) for r in range(RECEIVERS)),
                (1,) * RECEIVERS,
                tuple(shares[r] for r in range(RECEIVERS)),
                weights_of(matrix, errors),
            ),
            strict=True,
        )
    )
    # Which way is best shows in the beacons, whose content is known.
    right = {way: (_rows(reconstructed(beacons, w).to_arrow()) == BEACON).all(axis=1).sum() for way, w in ways.items()}
    ways[CHOSEN] = ways[max(WAYS, key=right.__getitem__)]
    answers = {way: reconstructed(packets, weights).to_arrow() for way, weights in ways.items()}
    rates = {way: judge(traffic, answer) for way, answer in answers.items()}
    return Found(lags, matrix, clusters, ways[CHOSEN], rates, answers[CHOSEN])


def judge(traffic: Traffic, answer: pa.Table) -> float:
    """The share of the packets that are right in every bit; a packet is known by its place in time."""
    number = answer["t"].to_numpy() // 1_000 // WORDS
    right = (_rows(answer) == traffic.packets[number]).all(axis=1)
    return float(right.sum() / len(traffic.packets))


def _rows(answer: pa.Table) -> Array:
    values = answer["values"].combine_chunks()
    values = values.chunk(0) if isinstance(values, pa.ChunkedArray) else values
    return np.asarray(values.flatten().to_numpy()).reshape(len(answer), -1)


def same_clusters(found: Groups, truth: Groups) -> bool:
    """Whether two clusterings agree, whatever their order."""
    return {frozenset(members) for members in found} == {frozenset(members) for members in truth}


# --- the run ------------------------------------------------------------------------------------------------------------

RATES = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)
"""Shares of the bits that receivers flip."""
GOOD = 0.001
"""Here clusters must be right, and nine of ten packets."""


def main(arguments: list[str] | None = None) -> int:
    """Run it in this process and on Spark; the exit code says whether both agreed, and whether clusters and packets were found."""
    parser = demo_options("netmon", __doc__)
    parser.add_argument("--packets", type=at_least(1_024), default=20_000, help="how many (default: %(default)s)")
    options = parser.parse_args(arguments)
    check_picture(options.picture)
    print(f"Hydrophone demo: packets of {8 * WORDS} bytes, as {RECEIVERS} receivers heard them")
    report, found = Report(), {}
    traffic = transmit(options.packets, GOOD)
    packets = copies(traffic.signals, traffic.lags.tolist())
    reconstructed(packets, (1,) * RECEIVERS).to_arrow()  # compiles
    with report.timed("in this process, aligned and reconstructed", options.packets, "packets"):
        reconstructed(packets, (1,) * RECEIVERS).to_arrow()
    with report.timed(f"all stages, at {len(RATES)} error rates", len(RATES) * options.packets, "packets") as ticker:
        for done, rate in enumerate(RATES):
            ticker.at(done, len(RATES), "error rates")
            found[rate] = monitor(transmit(options.packets, rate))
    shown = found[GOOD]
    report.add("clusters found", ", ".join(f"({' '.join(str(r + 1) for r in sorted(c))})" for c in shown.clusters))
    right = shown.lags == tuple(traffic.lags.tolist()) and same_clusters(shown.clusters, ROOMS)
    report.add("clocks and clusters", "as they truly are" if right else "WRONG")
    same = equal_on_spark(report, reconstructed(packets, shown.weights), shown.answer)
    draw(options.picture, found)
    report.add("picture", str(options.picture))
    rows = [(f"{rate:g}", *(f"{share:.1%}" for share in f.rates.values()), _agrees(f)) for rate, f in found.items()]
    report.table(("bit error rate", *(f"right: {way}" for way in (*WAYS, CHOSEN)), "clusters"), rows)
    report.show()
    return 0 if same and right and shown.rates[CHOSEN] > 0.9 else 1


def _agrees(found: Found) -> str:
    return "right" if same_clusters(found.clusters, ROOMS) else "wrong"


def draw(path: Path, found: dict[float, Found]) -> None:
    """The floor with the clusters that were found, the correlations, and how many packets are right."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.patches import Rectangle

    figure, axes = plt.subplot_mosaic([["floor", "matrix"], ["rate", "rate"]], figsize=(11, 9), layout="constrained")
    shown, floor = found[GOOD], axes["floor"]
    for color, members in zip(
        ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999"), shown.clusters, strict=False
    ):
        floor.plot(*PLACES[list(members)].T, "o", ms=22, color=color)
    for number, place in enumerate(PLACES):
        floor.annotate(str(number + 1), place, ha="center", va="center", color="white", weight="bold")
    for left, bottom, right, top in ((0.4, 0.4, 4.0, 3.8), (7.2, 0.4, 10.2, 3.8), (4.6, 5.0, 7.4, 7.2)):
        floor.add_patch(Rectangle((left, bottom), right - left, top - bottom, fill=False, ec="0.6"))
    floor.plot(4.2, 4.5, "*", ms=20, color="black", label="sender")
    floor.set(title="Receivers in their rooms; colours: clusters found", xlabel="metres", ylabel="metres")
    floor.set(xlim=(0, 10.6), ylim=(0, 7.6), aspect="equal")
    floor.legend(loc="upper left")
    order = [member for members in sorted(map(sorted, shown.clusters)) for member in members]
    mesh = axes["matrix"].imshow(shown.matrix[np.ix_(order, order)], cmap="viridis", vmin=0, vmax=1)
    names = [str(member + 1) for member in order]
    axes["matrix"].set(title="Correlation of wrong bits", xlabel="receiver", ylabel="receiver")
    axes["matrix"].set(xticks=range(RECEIVERS), yticks=range(RECEIVERS), xticklabels=names, yticklabels=names)
    figure.colorbar(mesh, ax=axes["matrix"], label="Pearson's r")
    for way, style, color in zip(
        (*WAYS, CHOSEN),
        (":^", "--s", "--d", "--v", "-o"),
        ("#999999", "#cc79a7", "#e69f00", "#0072b2", "#009e73"),
        strict=True,
    ):
        axes["rate"].plot(list(found), [f.rates[way] for f in found.values()], style, color=color, label=way)
    axes["rate"].set(xscale="log", ylim=(-0.03, 1.03), xlabel="bits that a receiver flips, beside bursts (share)")
    axes["rate"].set(title=f"Packets of {8 * WORDS} bytes that are right in every bit", ylabel="share of the packets")
    axes["rate"].legend(loc="lower left")
    write_picture(figure, path)


if __name__ == "__main__":
    raise SystemExit(main())
