"""Datasets of HDF5 files as a source of uniform signals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hydrophone.connect.recording import Recording, RecordingData, Track, library, period_of
from hydrophone.errors import DataError, ParameterError
from hydrophone.model.time import instant
from hydrophone.model.time import period as exact_period


@dataclass(frozen=True, eq=False)
class Hdf5Data(RecordingData):
    """Datasets of one dimension, or of two: frames and channels. Rate and start are arguments, or attributes of a dataset or its groups."""

    kind = "hdf5"
    suffixes = (".h5", ".hdf5", ".hdf")
    library, extra = "h5py", "hdf5"
    failures = (OSError, RuntimeError, ValueError, KeyError)

    datasets: tuple[str, ...] = ()
    attributes: tuple[str, str] = ("rate", "start")

    @property
    def key_schema(self) -> pa.Schema:
        """The file, and the name of the dataset."""
        return pa.schema([(n, pa.string()) for n in (*self.names.columns, "dataset")])

    @property
    def options(self) -> str:
        """Which datasets too."""
        return f"{super().options}, datasets={self.datasets}, attributes={self.attributes}"

    def open(self, path: str) -> Hdf5File:
        """Look at the datasets."""
        return Hdf5File(self, path)


class Hdf5File(Recording):
    """One file."""

    def __init__(self, data: Hdf5Data, path: str) -> None:
        self.data, self.path = data, path
        self.file = library("h5py", "hdf5", "read.hdf5").File(path, "r")
        try:
            self.sets = list(self._chosen())
            self.tracks = [self._track(found) for found in self.sets]
        except BaseException:
            self.file.close()
            raise

    def _chosen(self) -> Iterator[Any]:
        h5py = library("h5py", "hdf5", "read.hdf5")
        names: list[str] = []
        self.file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        for name in self.data.datasets:
            if name.strip("/") not in names:
                raise DataError(f"read.hdf5: {self.path} has no dataset {name!r}; it has: {', '.join(names) or 'none'}")
        for name in [n.strip("/") for n in self.data.datasets] or names:
            found = self.file[name]
            fits = found.dtype.kind in "iuf" and found.ndim in (1, 2) and found.dtype.itemsize <= 8
            if fits:
                yield found
            elif self.data.datasets:
                raise DataError(
                    f"read.hdf5: {self.path}: {name!r} is {found.dtype} of shape {found.shape}, which is no signal",
                    hint="a signal has one dimension of numbers, or two: frames and channels",
                )

    def _attribute(self, found: Any, name: str) -> Any:
        """Of the dataset, or of the nearest group around it that has it."""
        while name not in found.attrs and found.name != "/":
            found = found.parent
        value = found.attrs.get(name)
        value = value.decode() if isinstance(value, bytes) else value
        return value.item() if isinstance(value, np.generic | np.ndarray) and np.size(value) == 1 else value

    def _track(self, found: Any) -> Track:
        key, start = self.data.told_by_name(self.path)
        rate, begin = (self._attribute(found, name) for name in self.data.attributes)
        name = found.name.strip("/")
        try:
            period = self.data.period if rate is None else _period(rate, self.path)
            start = start if begin is None else instant(begin)
        except ParameterError as error:
            raise DataError(f"read.hdf5: {self.path}: attributes of {name!r}: {error.message}") from None
        if period is None:
            raise DataError(
                f"read.hdf5: {self.path}: nothing tells the rate of {name!r}",
                hint=f'say it (rate="25.6kHz"), or which attribute does: rate_attribute= (now {self.data.attributes[0]!r})',
            )
        kind = found.dtype.newbyteorder("=")
        kind = np.dtype(np.float32) if kind == np.float16 else kind
        channels = found.shape[1] if found.ndim == 2 and found.shape[1] > 1 else 0
        return Track((*key, name), period, start, found.shape[0], kind, channels)

    def read(self, track: int, start: int, stop: int) -> npt.NDArray[Any]:
        """A part of the dataset."""
        values = self.sets[track][start:stop]
        return values[:, 0] if values.ndim == 2 and not self.tracks[track].channels else values

    def close(self) -> None:
        """Close it."""
        self.file.close()


def _period(rate: Any, path: str) -> Fraction:
    """Of an attribute: a number is in Hz; text is a rate or a spacing, or nanoseconds as a fraction."""
    if isinstance(rate, str):
        return Fraction(rate) if "/" in rate else exact_period(rate)
    return period_of(rate, path, "hdf5")
