"""Cracks in a pipe are found when and where they are, and knocks are no cracks."""

from __future__ import annotations

import numpy as np
import pytest

from hydrophone.apps.pipeline_leak import RATE, SENSORS, cracks, judge, record, seconds_before_end


@pytest.mark.parametrize("seed", [2, 3])
def test_cracks_are_found_where_they_are(seed: int) -> None:
    recording = record(12, 15.0, seed=seed)
    score = judge(recording, cracks(recording.signal).to_arrow())
    assert score.precision == score.recall == 1.0
    assert score.metres < 0.5


def test_knocks_and_noise_alone_give_next_to_nothing() -> None:
    recording = record(12, -40.0, seed=4)
    assert len(cracks(recording.signal).to_arrow()) <= 1


def test_onsets_are_where_the_noise_gets_louder() -> None:
    rng = np.random.default_rng(1)
    windows = rng.normal(size=(20, 4096))
    onsets = rng.integers(1_000, 3_000, 20)
    for row, onset in zip(windows, onsets, strict=True):
        row[onset:] += 20 * rng.normal(size=4096 - onset) * np.exp(-np.arange(4096 - onset) / 200)
    off = 4095 - seconds_before_end(windows) * RATE - onsets
    assert np.abs(off).max() <= 3


def test_the_recording_has_all_sensors() -> None:
    recording = record(6, 10.0)
    assert len(recording.table) == 6 * SENSORS
    assert set(map(len, recording.table["values"].to_pylist())) == {RATE}
