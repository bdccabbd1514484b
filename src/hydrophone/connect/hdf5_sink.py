"""An HDF5 file as a sink: a dataset for every key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydrophone.connect.recording import library
from hydrophone.connect.recording_sink import RecordingSink, Run, RunWriter, due, real


@dataclass(frozen=True)
class Hdf5(RecordingSink):
    """One file. A dataset is named by the values of its key, and has the attributes ``rate`` and ``start``, and those of the key."""

    kind = "hdf5"
    suffix = ".h5"

    def begin(self, draft: Path, key: Sequence[str]) -> RunWriter:
        """Begin the file."""
        return _Hdf5Writer(draft, key)


class _Hdf5Writer:
    """One file."""

    def __init__(self, draft: Path, key: Sequence[str]) -> None:
        self.file, self.key = library("h5py", "hdf5", "write.hdf5").File(draft, "w"), key
        self.ends: dict[tuple[Any, ...], int] = {}

    def write(self, run: Run) -> None:
        """Append to the dataset of the key."""
        due(run, self.ends.get(run.key), "write.hdf5")
        values = real(run.values, "write.hdf5")
        name = "/".join(str(k) for k in run.key) or "signal"
        if run.key not in self.ends:
            made = self.file.create_dataset(
                name, (0, *values.shape[1:]), values.dtype, maxshape=(None, *values.shape[1:])
            )
            exact = (
                float(run.hertz) if run.hertz.denominator == 1 else f"{run.period.numerator}/{run.period.denominator}"
            )
            made.attrs["rate"], made.attrs["start"] = exact, run.start
            for column, value in zip(self.key, run.key, strict=True):
                made.attrs[column] = value
        found = self.file[name]
        found.resize(len(found) + len(values), axis=0)
        found[len(found) - len(values) :] = values
        self.ends[run.key] = run.end

    def close(self) -> None:
        """Close it."""
        self.file.close()
