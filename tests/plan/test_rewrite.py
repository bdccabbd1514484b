"""Row filters move only where the answer stays equal."""

import pyarrow as pa

import hydrophone as hp
from hydrophone.compiler.filter_pushdown import filters_on_sources, push_filters

ROWS = pa.table({"k": [1, 1, 2], "t": [0, 1, 2], "x": [1.0, -2.0, 3.0], "y": [5, 6, 7]})


def readings() -> hp.Stream:
    return hp.from_arrow(ROWS, key="k", time="t")


def shape(query: hp.Stream) -> list[str]:
    return [n.name() for n in push_filters(query.node).topological()]


def test_a_filter_goes_below_columns_that_it_does_not_read() -> None:
    query = readings().with_columns(z=hp.col("x") * 2).where(hp.col("y") > 5)
    assert shape(query) == ["source", "where", "with_columns"]
    assert query.to_arrow()["z"].to_pylist() == [-4.0, 6.0]


def test_a_filter_stays_above_columns_that_it_reads() -> None:
    query = readings().with_columns(x=hp.col("x") * 2).where(hp.col("x") > 2)
    assert shape(query) == ["source", "with_columns", "where"]
    assert query.to_arrow()["x"].to_pylist() == [6.0]


def test_filters_sink_through_everything_that_allows_it() -> None:
    query = readings().with_columns(z=hp.col("x")).select("z", "y").where(hp.col("y") > 5).where(hp.col("z") > 0)
    assert shape(query) == ["source", "where", "with_columns", "where", "select"]
    assert query.to_arrow()["z"].to_pylist() == [3.0]


def test_a_filter_on_a_signal_stays_above_the_check_for_overlap() -> None:
    query = readings().signal("x").where(hp.col("x") > 0)
    assert shape(query) == ["source", "signal", "where"]


def test_a_source_that_feeds_two_operators_is_read_whole() -> None:
    source = readings()
    joined = source.where(hp.col("x") > 0).band_join(source, before=0, after=0)
    assert list(filters_on_sources(joined.node).values()) == [()]


def test_conditions_directly_above_a_source_are_known_to_its_reader() -> None:
    query = readings().where(hp.col("x") > 0).where(hp.col("y") > 5).signal("x")
    (conditions,) = filters_on_sources(query.node).values()
    assert len(conditions) == 2
