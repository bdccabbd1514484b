"""What this process reads: the columns and row groups that a query needs. What it must not read is made unreadable."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hydrophone as hp

ROWS, GROUP = 400, 100
NAMES = tuple("abcdefgh")
TABLE = pa.table(
    {
        "k": np.arange(ROWS) % 3,
        "t": np.arange(ROWS) * 10,
        **{n: np.random.default_rng(i).normal(size=ROWS) for i, n in enumerate(NAMES)},
    }
)
ONE = "c"

Query = Callable[[hp.Stream], Any]
QUERIES: dict[str, Query] = {
    "tumble": lambda s: s.tumble(200).agg(mean=hp.mean(ONE), n=hp.count()),
    "signal": lambda s: s.signal(ONE).sample(10, fill=hp.hold(max_gap=30)).fir([0.5, 0.5]),
    "select": lambda s: s.select(ONE),
    "rekeyed": lambda s: s.key_by().sliding(500, every=100).agg(top=hp.max(ONE)),
    "columns": lambda s: s.with_columns(twice=hp.col(ONE) * 2).where(hp.col("twice") > 0).select("twice"),
}
READS: dict[str, Callable[[Any], pa.Table]] = {
    "to_arrow": lambda q: q.to_arrow(),
    "batches": lambda q: pa.concat_tables(q.batches(50, late=hp.late.drop())),
}


def parquet(folder: Path, spoiled: Callable[[int, str], bool] = lambda group, name: False) -> hp.Stream:
    """The table in row groups, of which some columns hold garbage; footers are whole."""
    path = folder / "rows.parquet"
    pq.write_table(TABLE, path, row_group_size=GROUP, use_dictionary=False)
    meta, data = pq.read_metadata(path), bytearray(path.read_bytes())
    for group in range(meta.num_row_groups):
        for i in range(meta.num_columns):
            chunk = meta.row_group(group).column(i)
            if spoiled(group, chunk.path_in_schema):
                first = chunk.data_page_offset
                data[first : first + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(data)
    return hp.read.parquet(path, key="k", time="t", progress=hp.ordered())


def csv(folder: Path, spoiled: tuple[str, ...] = ()) -> hp.Stream:
    """The table as text in two files; in the second the last cell of some columns is no number."""
    rows = [[str(v) for v in row.values()] for row in TABLE.to_pylist()]
    for name in spoiled:
        rows[-1][TABLE.column_names.index(name)] = "none"
    for number, half in enumerate((rows[: ROWS // 2], rows[ROWS // 2 :])):
        text = "\n".join(",".join(row) for row in [TABLE.column_names, *half])
        (folder / f"{number}.csv").write_text(text + "\n")
    return hp.read.csv(folder, key="k", time="t", progress=hp.ordered())


def seen(table: pa.Table) -> list[str]:
    return sorted(str(row) for row in table.to_pylist())


def memory() -> hp.Stream:
    return hp.from_arrow(TABLE, key="k", time="t", progress=hp.ordered())


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
@pytest.mark.parametrize("form", [parquet, csv], ids=lambda f: f.__name__)
def test_no_column_is_read_that_nobody_looks_at(tmp_path: Path, form: Any, query: Query, read: Any) -> None:
    others = tuple(n for n in NAMES if n != ONE)
    stream = form(tmp_path, others if form is csv else lambda group, name: name in others)
    assert seen(read(query(stream))) == seen(read(query(memory())))
    for name in (others[0], others[-1]):
        with pytest.raises((hp.DataError, OSError)):
            read(stream.select(ONE, name))


def test_no_row_group_is_read_that_a_filter_leaves_out(tmp_path: Path) -> None:
    stream = parquet(tmp_path, lambda group, name: group != 2)
    inside = (hp.col("t") >= 2 * GROUP * 10) & (hp.col("t") < 3 * GROUP * 10)
    for query in QUERIES.values():
        assert seen(query(stream.where(inside)).to_arrow()) == seen(query(memory().where(inside)).to_arrow())
    with pytest.raises((hp.DataError, OSError)):
        stream.where(hp.col("t") >= 0).to_arrow()


def test_a_part_of_the_answer_is_what_a_filter_gives(tmp_path: Path) -> None:
    low, high = 2 * GROUP * 10 + 100, 3 * GROUP * 10 - 600
    stream = parquet(tmp_path, lambda group, name: group != 2)
    for name in ("tumble", "signal", "select", "columns"):
        whole = QUERIES[name](memory()).to_arrow()
        at = whole["t"].to_numpy()
        wanted = whole.filter((at >= low) & (at < high) & np.isin(whole["k"].to_numpy(), [0, 2]))
        part = QUERIES[name](stream).to_arrow(keys=hp.col("k") != 1, start=low, end=high)
        assert len(part) and seen(part) == seen(wanted)


def test_parts_that_make_no_sense() -> None:
    with pytest.raises(
        hp.ParameterError, match="to_arrow: keys looks at 'a', which is no part of the key; the key is: k"
    ):
        memory().to_arrow(keys=hp.col("a") > 3)
    with pytest.raises(hp.ParameterError, match="to_arrow: start must be before end"):
        memory().to_arrow(start=5, end=5)
    with pytest.raises(hp.UnsupportedError, match="to_arrow: start and end choose rows"):
        QUERIES["signal"](memory()).to_arrow("segments", start=5)
    with pytest.raises(hp.PlanError, match="to_arrow: keys cannot be chosen"):
        memory().key_by(other="k").to_arrow(keys=hp.col("other") > 3)


def late_rows() -> pa.Table:
    """The row in the middle moves the mark, and no filter lets it pass; the last is late because of it."""
    return pa.table({"t": [0, 1_000, 10], "v": [1, -1, 2], "w": [7, 8, 9]})


def test_rows_that_a_filter_drops_still_move_marks(tmp_path: Path) -> None:
    pq.write_table(late_rows(), tmp_path / "rows.parquet")
    stream = hp.read.parquet(tmp_path, time="t", progress=hp.ordered())
    results = list(stream.where(hp.col("v") > 0).tumble(100).agg(n=hp.count()).batches(1, late=hp.late.drop()))
    assert pa.concat_tables(results)["n"].to_pylist() == [1]


def test_late_rows_are_kept_with_all_their_columns(tmp_path: Path) -> None:
    stream = hp.from_arrow(late_rows(), time="t", progress=hp.ordered())
    list(stream.tumble(100).agg(v=hp.sum("v")).batches(1, late=hp.late.side(str(tmp_path / "late"))))
    assert pq.read_table(tmp_path / "late").to_pylist() == [{"t": 10, "v": 2, "w": 9}]


def test_a_promise_by_sender_needs_its_column() -> None:
    rows = pa.table({"t": [0, 50, 200, 300], "who": ["a", "b", "a", "b"], "v": [1, 2, 3, 4]})
    stream = hp.from_arrow(rows, time="t", progress=hp.ordered(by="who"))
    found = pa.concat_tables(stream.tumble(100).agg(v=hp.sum("v")).batches(1, late=hp.late.error()))
    assert found["v"].to_pylist() == [3, 3, 4]
