"""Plain binary files with a declared layout as a source of uniform signals."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hydrophone.connect.recording import Recording, RecordingData, Track
from hydrophone.errors import DataError


@dataclass(frozen=True, eq=False)
class BinaryData(RecordingData):
    """Numbers one after the other behind a header of so many bytes; the channels of a frame follow each other."""

    kind = "binary"
    suffixes = (".bin", ".raw", ".dat", ".pcm", ".iq")

    dtype: str = "<f8"
    channels: int = 1
    header: int = 0

    @property
    def expected(self) -> tuple[np.dtype[Any], int]:
        """As stated; half precision is read as single, which Arrow computes with."""
        native = np.dtype(self.dtype).newbyteorder("=")
        return np.dtype(np.float32) if native == np.float16 else native, self.channels if self.channels > 1 else 0

    @property
    def options(self) -> str:
        """The layout too."""
        return f"{super().options}, dtype={self.dtype}, channels={self.channels}, header={self.header}"

    def open(self, path: str) -> BinaryFile:
        """Count the frames."""
        return BinaryFile(self, path)


class BinaryFile(Recording):
    """One file."""

    def __init__(self, data: BinaryData, path: str) -> None:
        self.data, self.path = data, path
        size = os.path.getsize(path) - data.header
        frame = np.dtype(data.dtype).itemsize * data.channels
        if size < 0 or size % frame:
            raise DataError(
                f"read.binary: {path} has {size} bytes behind its header, and a frame has {frame}: it is cut off, or of another layout",
                hint="check dtype=, channels= and header=, or copy the file again",
            )
        key, start = data.told_by_name(path)
        assert data.period is not None
        self.tracks = (Track(key, data.period, start, size // frame, *data.expected),)

    def read(self, track: int, start: int, stop: int) -> npt.NDArray[Any]:
        """The numbers there."""
        kind, width = np.dtype(self.data.dtype), self.data.channels
        offset = self.data.header + start * kind.itemsize * width
        flat = np.fromfile(self.path, kind, (stop - start) * width, offset=offset)
        return flat if width == 1 else flat[: len(flat) // width * width].reshape(-1, width)
