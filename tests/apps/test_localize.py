"""Calls are located and their kinds told apart, from the bearings of several arrays."""

from __future__ import annotations

import numpy as np
import pytest

from hydrophone.apps.detect_audio import MICROPHONES, RATE, SOUND
from hydrophone.apps.localize import AFTER, BEFORE, direction, judge, located, record


@pytest.mark.parametrize("seed", [2, 3])
def test_calls_are_located_and_named(seed: int) -> None:
    recording = record(8, 15.0, seed=seed)
    assert len(set(recording.kind.tolist())) > 1
    score = judge(recording, located(recording.signal).to_arrow())
    assert (score.recall, score.kinds, score.false) == (1.0, 1.0, 0)
    assert score.metres < 0.5


def test_noise_alone_is_no_call() -> None:
    recording = record(5, -40.0, seed=4)
    assert len(located(recording.signal).to_arrow()) == 0


def test_directions_of_plane_waves() -> None:
    rng = np.random.default_rng(1)
    angles = rng.uniform(-np.pi, np.pi, 12)
    tones, phases = rng.uniform(2_000, 6_000, 50), rng.uniform(0, 6, 50)
    early = np.stack([np.cos(angles), np.sin(angles)], axis=1) @ MICROPHONES.T / SOUND
    at = np.arange(BEFORE + AFTER)[None, :, None] / RATE + early[:, None, :]
    sound = sum(np.sin(2 * np.pi * tone * at + phase) for tone, phase in zip(tones, phases, strict=True))
    off = np.angle(direction(sound.reshape(12, -1)) * np.exp(-1j * angles))
    assert np.degrees(np.abs(off)).max() < 0.2
