"""The calls of a microphone array are found, cut out of all channels and located, on every engine alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hydrophone.apps.detect_audio import CALL_SECONDS, RATE, heard, judge, record

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("seed", [2, 3])
def test_all_calls_are_found_where_they_are(seed: int) -> None:
    recording = record(10, snr=10.0, seed=seed)
    found = heard(recording.signal).to_arrow()
    score = judge(recording, found)
    assert score.precision == score.recall == 1.0
    assert score.bearing_error < 2.0
    assert all(len(s) > CALL_SECONDS * RATE / 2 and len(s[0]) == 4 for s in found["sound"].to_pylist())


def test_noise_alone_gives_next_to_nothing() -> None:
    recording = record(10, snr=-40.0, seed=4)
    assert len(heard(recording.signal).to_arrow()) <= 1


def test_spark_gives_the_same_calls(spark: SparkSession) -> None:
    recording = record(5, snr=10.0, seed=5)
    frame = heard(recording.signal).to_spark(spark).toArrow()
    here = heard(recording.signal).to_arrow()
    assert frame.sort_by("t").to_pylist() == here.sort_by("t").to_pylist()
