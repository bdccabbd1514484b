"""The settings of a session that Hydrophone starts, as Spark's Java has them."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("name", "value"), [("arrow.enable_unsafe_memory_access", "true"), ("arrow.enable_null_check_for_get", "false")]
)
def test_spark_reads_rows_from_python_without_checking_twice(spark: Any, name: str, value: str) -> None:
    (row,) = spark.sql(f"select java_method('java.lang.System', 'getProperty', '{name}')").collect()
    assert row[0] == value


def test_nulls_and_empty_batches_still_cross(spark: Any) -> None:
    """What Arrow does not check any more, Spark does."""
    import pyarrow as pa

    def rows(batches: Any) -> Any:
        for _ in batches:
            yield pa.record_batch({"x": pa.array([], pa.float64()), "s": pa.array([], pa.string())})
            yield pa.record_batch({"x": pa.array([1.5, None, None]), "s": pa.array([None, "a", ""])})

    found = spark.range(0, 1, 1, 1).mapInArrow(rows, "x double, s string").collect()
    assert [tuple(r) for r in found] == [(1.5, None), (None, "a"), (None, "")]
