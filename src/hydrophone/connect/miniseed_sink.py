"""A MiniSEED file as a sink: records of all channels, in the order of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hydrophone.connect.recording import library
from hydrophone.connect.recording_sink import RecordingSink, Run, RunWriter, real
from hydrophone.connect.seismic import KEY
from hydrophone.errors import DataError, ParameterError, UnsupportedError

ENCODINGS = ("STEIM1", "STEIM2", "INT32", "FLOAT32", "FLOAT64")
_USUAL = {"f4": "FLOAT32", "f8": "FLOAT64"}


@dataclass(frozen=True)
class Miniseed(RecordingSink):
    """One file with the records of all channels; gaps stay."""

    kind = "miniseed"
    suffix = ".mseed"

    encoding: str | None = None
    version: int = 3
    record_length: int = 4096

    def begin(self, draft: Path, key: Sequence[str]) -> RunWriter:
        """Begin the file."""
        if tuple(key) != KEY:
            raise ParameterError(
                f"write.miniseed: channels are keyed by {', '.join(KEY)}, and this signal by {', '.join(key) or 'nothing'}",
                hint='make the columns first, in this order: events("value").key_by(network=..., station=..., ...)',
            )
        return _MiniseedWriter(self, draft)


class _MiniseedWriter:
    """One file."""

    def __init__(self, sink: Miniseed, draft: Path) -> None:
        self.sink, self.file = sink, draft.open("wb")
        self.library = library("pymseed", "seismic", "write.miniseed")

    def write(self, run: Run) -> None:
        """The records of a run."""
        values = real(run.values, "write.miniseed")
        if values.ndim == 2:
            raise UnsupportedError(
                "write.miniseed: a record holds one channel",
                hint="write channel(0), channel(1) and so on by themselves",
            )
        if self.sink.version == 2 and run.start % 1000:
            raise DataError(
                f"write.miniseed: {run.name!r} starts at {run.start} ns, and version 2 holds whole microseconds",
                hint="version=3",
            )
        record = self.library.MS3Record()
        record.sourceid = self.library.nslc2sourceid(*run.key)
        record.formatversion, record.reclen = self.sink.version, self.sink.record_length
        record.samprate, record.starttime = float(run.hertz), run.start
        encoding, stored = _as_stored(values, self.sink.encoding, run.name)
        record.encoding = self.library.DataEncoding[encoding]
        try:
            for part in record.generate(
                data_samples=stored, sample_type={"i4": "i", "f4": "f", "f8": "d"}[stored.dtype.str[1:]]
            ):
                self.file.write(part)
        except (self.library.MiniSEEDError, ValueError) as error:
            raise DataError(
                f"write.miniseed: {run.name!r}: {str(error).strip().splitlines()[0]}",
                hint='steps of 2**29 and more need encoding="INT32"',
            ) from error

    def close(self) -> None:
        """Close it."""
        self.file.close()


def _as_stored(values: npt.NDArray[Any], encoding: str | None, name: str) -> tuple[str, npt.NDArray[Any]]:
    """The encoding, and the samples in its type without a changed bit."""
    chosen = encoding or _USUAL.get(values.dtype.str[1:], "STEIM2")
    stored = np.ascontiguousarray(values).astype({"FLOAT32": np.float32, "FLOAT64": np.float64}.get(chosen, np.int32))
    if not ((stored == values) | (values != values)).all():
        raise DataError(
            f"write.miniseed: {name!r} holds {values.dtype}, of which {chosen} would lose bits",
            hint='encoding="FLOAT64"',
        )
    return chosen, stored
