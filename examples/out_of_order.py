"""Nine queries over network packets that arrive out of order, after Li et al., "Out-of-Order Processing", VLDB 2008.

Every query says what it wants to know; which packets come first never changes an answer. Run ``python examples/out_of_order.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

import hydrophone as hp
from hydrophone.model.progress import Policy

ADDRESS = {"src": "dst", "dst": "src", "sport": "dport", "dport": "sport"}
"""An answer goes back where the question came from."""
SECOND = 1_000_000_000

Links = Mapping[str, hp.Stream]


def q1(links: Links) -> hp.Stream:
    """How many packets do three links carry every minute?"""
    return hp.union(links["control"], links["main1"], links["main2"]).tumble("1min").agg(n=hp.count())


def q2(links: Links) -> hp.Stream:
    """Which packets of one link meet packets of another that go to their sender, from 2 minutes before to 3 minutes after?"""
    return links["main1"].band_join(links["main2"], on={"src": "dst"}, before=120 * SECOND - 1, after=180 * SECOND - 1)


def q3(links: Links) -> hp.Stream:
    """How many connections were asked for in one second and accepted in another, within 2 minutes?"""
    asked = links["main1"].where(hp.col("flag") == "SYN")
    accepted = links["main2"].where(hp.col("flag") == "SYN_ACK")
    opened = asked.band_join(accepted, on={"dst": "src", "dport": "sport"}, before=-1, after="2min", by="both")
    return opened.key_by().tumble("1s", by="both").agg(n=hp.count())


def q4(links: Links) -> hp.Stream:
    """How many packets go from each sender to each receiver every minute?"""
    return links["main1"].key_by("src", "dst").tumble("1min").agg(n=hp.count())


def q5(links: Links) -> hp.Stream:
    """The same for two links together."""
    return hp.union(links["main1"], links["main2"]).key_by("src", "dst").tumble("1min").agg(n=hp.count())


def q6(links: Links) -> hp.Stream:
    """Which packets are answered within the same ten seconds of the clock, each side coming over two links?"""
    ten = hp.col("ts") - hp.col("ts") % (10 * SECOND)
    one = hp.union(links["a"], links["b"]).with_columns(ten=ten)
    other = hp.union(links["c"], links["d"]).with_columns(ten=ten)
    return one.band_join(other, on={**ADDRESS, "ten": "ten"}, before="10s", after="10s")


def q7(links: Links, band: str = "30s") -> hp.Stream:
    """How many packets are answered at about the same time, by the minute of the packet?"""
    pairs = links["main1"].band_join(links["main2"], on=ADDRESS, before=band, after=band, by="left")
    return pairs.key_by().tumble("1min").agg(n=hp.count())


def q8(links: Links) -> hp.Stream:
    """Which packets are answered at the very same time, over either of two links?"""
    return links["main1"].join(hp.union(links["main2"], links["control"]), on=ADDRESS)


def q9(links: Links) -> hp.Stream:
    """How many packets did three links carry in the last five minutes, every minute?"""
    return hp.union(links["main1"], links["main2"], links["control"]).sliding("5min", every="1min").agg(n=hp.count())


QUERIES: dict[str, Callable[[Links], hp.Stream]] = {
    f.__name__: f
    for f in (q1, q2, q3, q4, q5, q6, q7, q8, q9)  # type: ignore[dict-item]
}


def packets(seed: int, count: int, minutes: int = 8) -> pa.Table:
    """Packets between a few hosts, in the order of time."""
    rng = np.random.default_rng(seed)
    hosts, flags = np.array(["10.0.0.1", "10.0.0.2", "10.0.0.3"]), np.array(["SYN", "SYN_ACK", "ACK"])
    return pa.table(
        {
            "ts": np.sort(rng.integers(0, minutes * 60 * 4, count)) * (SECOND // 4),
            "src": rng.choice(hosts, count),
            "dst": rng.choice(hosts, count),
            "sport": rng.choice([80, 443], count),
            "dport": rng.choice([80, 443], count),
            "flag": rng.choice(flags, count),
        }
    )


def links(tables: Mapping[str, pa.Table], progress: Policy | None = None) -> dict[str, hp.Stream]:
    """A stream for every link."""
    return {name: hp.from_arrow(table, time="ts", progress=progress) for name, table in tables.items()}


def main() -> None:
    """Answer all queries over made-up packets."""
    sizes = {"control": 20, "main1": 120, "main2": 120, "a": 60, "b": 60, "c": 60, "d": 60}
    tables = {name: packets(seed, size) for seed, (name, size) in enumerate(sizes.items())}
    for name, query in QUERIES.items():
        answer = query(links(tables)).to_pandas()
        print(f"{name}: {query.__doc__}\n{answer.head(3)}\n... {len(answer)} rows\n")


if __name__ == "__main__":
    main()
