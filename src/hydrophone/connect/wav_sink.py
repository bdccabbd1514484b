"""WAV files as a sink: one for every key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hydrophone.connect.recording import library
from hydrophone.connect.recording_sink import RecordingSink, Run, RunWriter, due, path_of, real
from hydrophone.errors import DataError, ParameterError
from hydrophone.model.time import format_instant

BITS = {"PCM_16": 16, "PCM_24": 24, "PCM_32": 32}
SUBTYPES = (*BITS, "FLOAT", "DOUBLE")
_USUAL = {"int16": "PCM_16", "int32": "PCM_32", "float32": "FLOAT"}


@dataclass(frozen=True)
class Wav(RecordingSink):
    """A WAV file for every key in a folder, or one file for the only key."""

    kind = "wav"
    suffix = ".wav"

    subtype: str | None = None
    start_in_name: bool = False

    def begin(self, draft: Path, key: Sequence[str]) -> RunWriter:
        """Make the folder."""
        one = self.path.endswith(self.suffix)
        if not one:
            draft.mkdir()
        return _WavWriter(self, draft, one)


class _WavWriter:
    """Open files by key."""

    def __init__(self, sink: Wav, draft: Path, one: bool) -> None:
        self.sink, self.draft, self.one = sink, draft, one
        self.files: dict[tuple[Any, ...], Any] = {}
        self.ends: dict[tuple[Any, ...], int] = {}

    def write(self, run: Run) -> None:
        """Append to the file of the key."""
        due(run, self.ends.get(run.key), "write.wav")
        if run.key not in self.files:
            self.files[run.key] = self._opened(run)
        file = self.files[run.key]
        file.write(_as_stored(real(run.values, "write.wav"), file.subtype, run.name))
        self.ends[run.key] = run.end

    def _opened(self, run: Run) -> Any:
        if self.one and self.files:
            raise ParameterError(
                f"write.wav: {self.sink.path} is one file, and the signal has several keys",
                hint="give a folder: each key has a file in it",
            )
        if run.hertz.denominator != 1:
            raise DataError(
                f"write.wav: {run.name!r} has {float(run.hertz):g} samples in a second, and a WAV file holds whole rates",
                hint='resample("44.1kHz") first',
            )
        when = "" if not self.sink.start_in_name else "_" + format_instant(run.start).replace("-", "").replace(":", "")
        path = self.draft if self.one else path_of(self.draft, run, f"{when}.wav", "write.wav")
        channels = run.values.shape[1] if run.values.ndim == 2 else 1
        subtype = self.sink.subtype or _USUAL.get(str(run.values.dtype), "DOUBLE")
        return library("soundfile", "audio", "write.wav").SoundFile(
            path, "w", int(run.hertz), channels, subtype=subtype, format="WAV"
        )

    def close(self) -> None:
        """Close all."""
        for file in self.files.values():
            file.close()


def _as_stored(values: npt.NDArray[Any], subtype: str, name: str) -> npt.NDArray[Any]:
    """Samples as libsndfile writes them without changing a bit: integers from the left, or floats."""
    bits = BITS.get(subtype)
    if bits is None:
        if values.dtype.kind in "iu":
            raise _lossy(name, values.dtype, subtype, "integers are written as PCM_16, PCM_24 or PCM_32")
        return values.astype(np.float32 if subtype == "FLOAT" else np.float64, copy=False)
    room = 16 if bits == 16 else 32
    if values.dtype.kind == "f":
        stored = np.rint(values.astype(np.float64) * 2.0 ** (bits - 1))
        if not (np.abs(stored + 0.5) <= 2.0 ** (bits - 1)).all():
            raise DataError(
                f"write.wav: {name!r} has samples beyond full scale, or NaN: {subtype} holds -1 up to, but not including, 1",
                hint='scale the signal first, or write subtype="FLOAT"',
            )
        whole = stored.astype(np.int64) << (room - bits)
    else:
        # Integers are taken as the reader gives them: those of 16 bits fill 16, all others 32.
        own = 16 if values.dtype == np.int16 else 32
        whole = values.astype(np.int64)
        whole = whole << (room - own) if room >= own else whole >> (own - room)
        if (
            values.dtype.itemsize > 4
            or values.dtype.kind == "u"
            or (own > bits and (values & ((1 << (own - bits)) - 1)).any())
        ):
            raise _lossy(name, values.dtype, subtype, "PCM_32 holds integers of 32 bits")
    return whole.astype(np.int16 if room == 16 else np.int32)


def _lossy(name: str, kind: np.dtype[Any], subtype: str, hint: str) -> DataError:
    return DataError(f"write.wav: {name!r} holds {kind}, of which {subtype} would lose bits", hint=hint)
