"""The spoken parts of a recording are cut out, from one that is made and from a file of the user."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from hydrophone.apps.silence_filter import (
    ABOVE,
    RATE,
    WINDOW,
    judge,
    main,
    noise_level,
    record,
    speak,
    spoken,
    write_spoken,
)
from hydrophone.errors import DataError, HydrophoneError


def test_speech_is_cut_out_where_it_is(tmp_path: Path) -> None:
    speech, path = speak(15, seed=3), tmp_path / "voice.wav"
    assert len(speech.spans) >= 3
    record(speech, 15.0, path)
    found = spoken(str(path), ABOVE * noise_level(str(path))).to_arrow()
    score = judge(speech, found)
    assert score.precision > 0.9
    assert score.recall > 0.98
    # What was written is what NumPy cuts out of the samples.
    stored, _ = soundfile.read(path)
    windows = stored[: len(stored) // WINDOW * WINDOW].reshape(-1, WINDOW)
    expected = windows[windows.std(axis=1) > ABOVE * noise_level(str(path))].reshape(-1)
    seconds = write_spoken(found, RATE, tmp_path / "spoken.wav")
    written, rate = soundfile.read(tmp_path / "spoken.wav")
    assert (rate, seconds) == (RATE, len(expected) / RATE)
    np.testing.assert_allclose(written, expected, atol=2 / 32_768)


def test_speech_below_the_noise_is_not_taken_for_speech(tmp_path: Path) -> None:
    speech, path = speak(10, seed=4), tmp_path / "voice.wav"
    record(speech, -20.0, path)
    found = spoken(str(path), ABOVE * noise_level(str(path))).to_arrow()
    assert len(found) == 0
    assert judge(speech, found).recall == 0
    with pytest.raises(DataError, match="above the threshold"):
        write_spoken(found, RATE, tmp_path / "spoken.wav")


def test_all_channels_are_cut_at_any_rate(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    sound = rng.normal(0, 0.001, (40 * WINDOW, 2))
    sound[10 * WINDOW : 20 * WINDOW] *= 100
    path = tmp_path / "stereo.wav"
    soundfile.write(path, sound, 8_000, subtype="FLOAT")
    found = spoken(str(path), 0.01).to_arrow().to_pylist()
    cut = np.concatenate([row["sound"] for row in found])
    np.testing.assert_array_equal(cut, sound[10 * WINDOW : 20 * WINDOW].astype(np.float32))


def test_a_recording_that_makes_no_sense_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    soundfile.write("short.wav", np.zeros(100), 8_000)
    with pytest.raises(DataError, match=f"shorter than one window of {WINDOW}"):
        main(["--recording", "short.wav"])
    with pytest.raises(HydrophoneError, match="the recording itself"):
        main(["--recording", "short.wav", "--to", "short.wav"])
