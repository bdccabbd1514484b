"""Timestamps with and without a zone: what comes in as an instant goes out as one, in UTC, on every engine."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.cases.table import rows
from tests.spark.test_streaming import arrive, result

import hydrophone as hp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NOON = 1_585_483_200_000_000
"""The day on which Paris went to summer time, in microseconds."""


def table(zone: str | None, seconds: range) -> pa.Table:
    at = pa.array([NOON + s * 1_000_000 for s in seconds])
    return pa.table(
        {
            "k": [s % 2 for s in seconds],
            "day": pa.array([NOON] * len(seconds), pa.timestamp("us", "Asia/Tokyo")),
            "ts": at.cast(pa.timestamp("us", zone)),
            "seen": at.cast(pa.timestamp("us", "America/New_York")),
            "noted": at.cast(pa.timestamp("us")),
            "v": [float(s) for s in seconds],
        }
    )


def pairs(source: hp.Stream) -> hp.Stream:
    """Times in the key, in the payload, made by an operator and made by an expression."""
    hour = hp.col("seen").dt.convert_time_zone("Europe/Paris")
    return source.pairs(within="5s").with_columns(there=hour, hour=hour.dt.hour(), copy=hp.col("ts"))


@pytest.mark.parametrize("zone", ["Europe/Paris", None])
def test_zones_are_kept_on_every_engine(spark: SparkSession, tmp_path: Path, zone: str | None) -> None:
    arrive(tmp_path / "in", [table(zone, range(0, 10)), table(zone, range(10, 20)), table(zone, range(900, 901))])
    source = hp.read.parquet(str(tmp_path / "in"), key=("k", "day"), time="ts", progress=hp.delayed("1s"))
    query = pairs(source)
    local = query.to_arrow()
    zoned = {n for n in local.column_names if getattr(local.schema.field(n).type, "tz", None)}
    assert {local.schema.field(n).type.tz for n in zoned} == {"UTC"}
    own = {"ts", "ts_before", "copy"} if zone else set()
    assert zoned == {"day", "seen", "seen_before", "there"} | own
    assert set(local["hour"].to_pylist()) == {14}
    batch = query.to_spark(spark)
    kinds = dict(batch.dtypes)
    assert {n for n, kind in kinds.items() if kind == "timestamp"} == zoned
    naive = {"noted", "noted_before", "ts", "ts_before", "copy"} - own
    assert {n for n, kind in kinds.items() if kind == "timestamp_ntz"} == naive
    assert sorted(rows(batch.toArrow())) == sorted(rows(local))
    query.start(
        spark, to=hp.write.parquet(str(tmp_path / "out")), checkpoint=str(tmp_path / "c"), trigger="available"
    ).wait()
    streamed = result(tmp_path / "out")
    assert {n for n in streamed.column_names if getattr(streamed.schema.field(n).type, "tz", None)} == zoned
    assert sorted(rows(streamed)) == sorted(rows(local))


def test_signals_and_parts_of_answers_have_a_zone_too(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(table("Europe/Paris", range(20)), tmp_path / "a.parquet")
    source = hp.read.parquet(str(tmp_path / "a.parquet"), key="k", time="ts")
    late = source.where(hp.col("ts") >= datetime(2020, 3, 29, 12, 0, 10, tzinfo=UTC))
    signal = late.signal("v").sample("2s", fill=hp.hold())
    local = signal.to_arrow()
    assert local.schema.field("ts").type == pa.timestamp("ns", "UTC") and len(local) == 9
    assert sorted(rows(signal.to_spark(spark).toArrow())) == sorted(rows(local))
    end = datetime(2020, 3, 29, 12, 0, 15, tzinfo=UTC)
    part = signal.to_spark(spark, end=end)
    assert sorted(rows(part.toArrow())) == sorted(r for r in rows(local) if r[1] < end.timestamp() * 1e9)
    frame = hp.from_spark(spark.read.parquet(str(tmp_path / "a.parquet")), key="k", time="ts")
    assert sorted(rows(frame.to_spark(spark).toArrow())) == sorted(rows(source.to_arrow()))


def test_zones_are_not_guessed() -> None:
    zoned, naive = (hp.from_arrow(table(zone, range(4)), key="k", time="ts") for zone in ("UTC", None))
    with pytest.raises(hp.SignalTypeError, match="one side has timestamps with a zone, the other timestamps without"):
        hp.union(zoned, naive)
    signals = [s.signal("v").sample("1s") for s in (zoned, naive)]
    with pytest.raises(hp.SignalTypeError, match="with a zone"):
        signals[0] + signals[1]
    with pytest.raises(hp.SignalTypeError, match=r"(?s)does not work on ts.*Hint: give times a zone"):
        zoned.where(hp.col("ts") > datetime(2020, 1, 1))
