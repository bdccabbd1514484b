"""Every application gives the same answer on Spark as in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hydrophone.api.query import Query
from hydrophone.apps import localize, netmon, pipeline_leak, silence_filter
from hydrophone.apps.report import in_order

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _silence_filter(folder: Path) -> Query:
    silence_filter.record(silence_filter.speak(8), 15.0, folder / "voice.wav")
    return silence_filter.spoken(str(folder / "voice.wav"), 0.05)


def _pipeline_leak(folder: Path) -> Query:
    return pipeline_leak.cracks(pipeline_leak.record(8, 15.0).signal)


def _localize(folder: Path) -> Query:
    return localize.located(localize.record(4, 15.0).signal)


def _netmon(folder: Path) -> Query:
    traffic = netmon.transmit(200, 0.001)
    return netmon.reconstructed(netmon.copies(traffic.signals, traffic.lags.tolist()), (1,) * netmon.RECEIVERS)


@pytest.mark.parametrize("application", [_silence_filter, _pipeline_leak, _localize, _netmon])
def test_spark_gives_the_same_rows(spark: SparkSession, tmp_path: Path, application: Callable[[Path], Query]) -> None:
    query = application(tmp_path)
    here = query.to_arrow()
    assert len(here)
    assert in_order(query.to_spark(spark).toArrow()) == in_order(here)
