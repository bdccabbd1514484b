"""Sinks that write uniform signals as recordings, in this process. A format says how a run of samples is written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hydrophone.connect.files import check_output, write_then_rename
from hydrophone.connect.output_conflicts import check_output_apart
from hydrophone.connect.sink import Answer, Sink
from hydrophone.errors import DataError, ParameterError, UnsupportedError
from hydrophone.model.timebase import Timebase

_FINEST = 1_000_000
"""A period that leaves as a float is the simplest fraction near it with no larger denominator."""


@dataclass(frozen=True)
class Run:
    """Samples of one key without a gap."""

    key: tuple[Any, ...]
    start: int
    period: Fraction
    values: npt.NDArray[Any]

    @property
    def name(self) -> str:
        """The key as part of a path; ``signal`` where there is none."""
        return "_".join(str(k) for k in self.key) or "signal"

    @property
    def end(self) -> int:
        """The instant of the sample that would go on from it."""
        return Timebase(self.period, self.start).instant(len(self.values))

    @property
    def hertz(self) -> Fraction:
        """Samples in a second."""
        return 10**9 / self.period


class RunWriter(Protocol):
    """Writes runs; those of a key come in the order of time."""

    def write(self, run: Run) -> None:
        """Append a run."""

    def close(self) -> None:
        """Everything is on its way to the disk."""


@dataclass(frozen=True)
class RecordingSink(Sink):
    """Recordings under a path. Only a whole answer of this process is written."""

    noun = "folder"
    shape = "segments"
    kind: ClassVar[str]
    """Errors begin with ``write.<kind>``."""

    path: str

    @property
    def place(self) -> str:
        """The path."""
        return self.path

    def begin(self, draft: Path, key: Sequence[str]) -> RunWriter:
        """Begin the file or folder of an answer with these key columns."""
        raise NotImplementedError

    def save(self, answer: Answer, *, overwrite: bool) -> None:
        """Run by run."""
        what = f"write.{self.kind}"
        if answer.shape != "segments":
            raise UnsupportedError(
                f"{what}: a recording holds a uniform signal, and this is none", hint="write Parquet"
            )
        check_output_apart(answer.inputs, self.path, what=what, writes=self.suffix)
        check_output(self.path, what=what, overwrite=overwrite)
        key = answer.schema.names[: answer.schema.names.index("period") - 1]
        with (
            write_then_rename(self.path, what=what, overwrite=overwrite) as draft,
            closing(self.begin(draft, key)) as writer,
        ):
            for table in answer.tables():
                for run in runs(table):
                    writer.write(run)

    def check_spark(self, what: str) -> None:
        """Refuse, with the reason."""
        raise UnsupportedError(
            f"{what}: tasks of Spark cannot write {self.place}: a recording is one file with all samples of a key in order",
            hint='write Parquet there (shape="segments"), and save that in this process: '
            f"hp.read.segments(...).save(hp.write.{self.kind}(...))",
        )


def runs(table: pa.Table) -> Iterator[Run]:
    """The rows of an answer that left as segments, in the order of time."""
    key = table.column_names[: table.column_names.index("period") - 1]
    time = table.column_names[len(key)]
    table = table.take(pa.compute.sort_indices(table[time]))
    start = table[time].cast(pa.int64()).to_pylist()
    keys = list(zip(*(table[k].to_pylist() for k in key), strict=True)) or [()] * len(table)
    for row, arrays in enumerate(a for chunk in table["values"].chunks for a in _arrays(chunk)):
        period = Fraction(table["period"][row].as_py()).limit_denominator(_FINEST)
        yield Run(keys[row], start[row], period, arrays)


def _arrays(column: pa.Array) -> Iterator[npt.NDArray[Any]]:
    if pa.types.is_struct(column.type):
        for real, imaginary in zip(_arrays(column.field("re")), _arrays(column.field("im")), strict=True):
            yield real + 1j * imaginary
        return
    for row in column:
        values = row.values
        if pa.types.is_list(values.type):
            yield values.flatten().to_numpy().reshape(len(values), -1)
        else:
            yield values.to_numpy(zero_copy_only=False)


def due(run: Run, expected: int | None, what: str) -> None:
    """Refuse a run that does not go on from the one before it, for formats without gaps."""
    if expected is not None and run.start != expected:
        kind = "a gap" if run.start > expected else "an overlap"
        raise DataError(
            f"{what}: the signal {run.name!r} has {kind} at {expected} ns, and such a file holds none",
            hint='choose a stretch without one, fill it first, or write Parquet, which keeps gaps: to_parquet(path, shape="segments")',
        )


def path_of(folder: Path, run: Run, suffix: str, what: str) -> Path:
    """The file of a key under a folder; a key may name folders in it."""
    target = folder / f"{run.name}{suffix}"
    if not target.resolve().is_relative_to(folder.resolve()) or "\0" in run.name:
        raise ParameterError(
            f"{what}: the key {run.name!r} names no file under the folder", hint="rename the key first"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def real(values: npt.NDArray[Any], what: str) -> npt.NDArray[Any]:
    """Refuse complex samples."""
    if np.iscomplexobj(values):
        raise UnsupportedError(
            f"{what}: such files hold no complex numbers", hint="write magnitude() and phase(), or Parquet"
        )
    return values
