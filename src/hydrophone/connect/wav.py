"""WAV and FLAC files as a source of uniform signals, through libsndfile."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from hydrophone.connect.recording import Recording, RecordingData, Track, library, period_of
from hydrophone.errors import DataError

DTYPES = ("float64", "float32", "int16", "int32")
_HELD_BY = {
    **dict.fromkeys(("PCM_S8", "PCM_U8", "PCM_16", "ULAW", "ALAW"), frozenset(DTYPES)),
    "PCM_24": frozenset({"float64", "float32", "int32"}),
    "PCM_32": frozenset({"float64", "int32"}),
    "FLOAT": frozenset({"float64", "float32"}),
}
"""By the kind of samples in a file the types that hold all their bits; others are held by float64 alone."""


@dataclass(frozen=True, eq=False)
class WavData(RecordingData):
    """Frames of WAV and FLAC files, a key per file. Integers come as fractions of full scale, or as they are with an integer `dtype`."""

    kind = "wav"
    suffixes = (".wav", ".WAV", ".flac", ".FLAC")
    library, extra = "soundfile", "audio"
    failures = (OSError, RuntimeError, ValueError, EOFError)

    dtype: str = "float64"
    channel: int | None = None
    channels: int | None = None
    """What the user states of files that are still to come."""

    @property
    def expected(self) -> tuple[np.dtype[Any], int]:
        """As stated."""
        several = self.channels or 1
        return np.dtype(self.dtype), several if several > 1 and self.channel is None else 0

    @property
    def options(self) -> str:
        """Type and channel too."""
        return f"{super().options}, dtype={self.dtype}, channel={self.channel}"

    def open(self, path: str) -> WavFile:
        """Look at the header."""
        return WavFile(self, path)


class WavFile(Recording):
    """One file."""

    def __init__(self, data: WavData, path: str) -> None:
        soundfile = library("soundfile", "audio", "read.wav")
        self.data, self.path = data, path
        _check_header(path)
        self.file = soundfile.SoundFile(path)
        found = self.file.channels
        if data.dtype not in _HELD_BY.get(self.file.subtype, {"float64"}):
            raise DataError(
                f"read.wav: {path} holds {self.file.subtype}, of which {data.dtype} would lose bits",
                hint='take dtype="float64", which holds every kind of sample',
            )
        if data.channel is not None and data.channel >= found:
            raise DataError(f"read.wav: {path} has {found} channels, and channel={data.channel} is none of them")

    @cached_property
    def tracks(self) -> tuple[Track, ...]:  # type: ignore[override]
        """One, of all channels."""
        key, start = self.data.told_by_name(self.path)
        several = self.file.channels if self.data.channel is None and self.file.channels > 1 else 0
        period = period_of(self.file.samplerate, self.path, "wav")
        return (Track(key, period, start, self.file.frames, np.dtype(self.data.dtype), several),)

    def read(self, track: int, start: int, stop: int) -> npt.NDArray[Any]:
        """Go there and read."""
        if self.file.tell() != start:
            self.file.seek(start)
        found = self.file.read(stop - start, self.data.dtype, always_2d=self.data.channel is not None)
        return found if self.data.channel is None else found[:, self.data.channel]

    def close(self) -> None:
        """Close it."""
        self.file.close()


# --- headers that lie -------------------------------------------------------------------------------------------------

_UNKNOWN = 0xFFFFFFFF
"""What writers into a pipe give for a size, and RF64 where the size is in another chunk."""
_PLAIN = (1, 3, 0xFFFE)
"""Tags of formats whose frames all have the same size: integers, floats, and either with an extended header."""
_AGAIN = "copy it again, or leave it out"


def _check_header(path: str) -> None:
    """Refuse a WAV file that ends before its samples do, or whose rates disagree: libsndfile would take what is there for all of it."""
    with open(path, "rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        magic = file.read(12)
        if len(magic) == 12 and magic[:4] in (b"RIFF", b"RIFX", b"RF64") and magic[8:] == b"WAVE":
            promised = _samples_promised(file, ">" if magic[:4] == b"RIFX" else "<", path)
            there = size - file.tell()
            if promised is None:
                raise DataError(f"read.wav: {path} is cut off: it ends before its samples begin", hint=_AGAIN)
            if promised > there:
                raise DataError(
                    f"read.wav: {path} is cut off: its header tells of {promised} bytes of samples, and {there} are there",
                    hint=_AGAIN,
                )


def _samples_promised(file: BinaryIO, order: str, path: str) -> int | None:
    """Bytes of the samples as the header says, 0 where it leaves it open; the file is then at the first. None: there are none."""
    large = 0
    while len(head := file.read(8)) == 8:
        name, size = struct.unpack(f"{order}4sI", head)
        if name == b"data":
            return large if size == _UNKNOWN else size
        begin = file.tell()
        body = file.read(16)
        if name == b"ds64" and len(body) == 16:
            large = struct.unpack("<Q", body[8:])[0]
        elif name == b"fmt " and len(body) == 16:
            tag, _, rate, bytes_per_second, frame, _ = struct.unpack(f"{order}HHIIHH", body)
            _check_rates(tag, rate, bytes_per_second, frame, path)
        file.seek(begin + size + size % 2)
    return None


def _check_rates(tag: int, rate: int, bytes_per_second: int, frame: int, path: str) -> None:
    if tag in _PLAIN and bytes_per_second != rate * frame:
        raise DataError(
            f"read.wav: {path}: its header tells of {rate} samples in a second and of {bytes_per_second} bytes, "
            f"which for {frame} bytes a sample disagree",
            hint="say the rate yourself and read it as plain numbers: hp.read.binary(..., dtype=, channels=, rate=, header=44)",
        )
