"""What Spark's log says of the files of a micro-batch, held against what tasks have read.

Spark notes the names of new files, and later lists them again to read them. By then a file may be gone, and a file of 0 bytes
is passed over: both without a word, and the name is never looked at again. So tasks tell which files they have read to the end.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from hydrophone.errors import DataError, UnsupportedError
from hydrophone.spark.streaming.chunks import file_name
from hydrophone.spark.streaming.claims import read_text
from hydrophone.spark.streaming.outlets import on_this_machine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BATCH = re.compile(r'"batchId":(\d+)\}$')


@dataclass(frozen=True)
class SourceLog:
    """The logs of the folders that a query watches, which are the first of its sources.

    Attributes
    ----------
    checkpoint : the folder
    watched : what the sources are called
    """

    checkpoint: str
    watched: tuple[str, ...]

    def check(self, spark: SparkSession, batch: int, read: Mapping[int, set[str]]) -> None:
        """Refuse a micro-batch in which a file was not read; its results are not written, and it runs again at the next start."""
        if not self.watched:
            return
        ends, starts = self._offsets(spark, batch), self._offsets(spark, batch - 1)
        for source, name in enumerate(self.watched):
            first, last = starts.get(source, -1), ends.get(source, -1)
            named = self._named(spark, source, range(first + 1, last + 1))
            missing = sorted(named - read.get(source, set()))
            if missing:
                raise DataError(
                    f"start: {len(missing)} of {len(named)} files of {name} in micro-batch {batch} were not read, "
                    f"the first is {missing[0]}, which {_state(missing[0])}",
                    hint="files must arrive whole: write them elsewhere and move them in. When the file is whole, start again: "
                    "the micro-batch runs again with it. To go on without it, put a file without rows in its place",
                )

    def _offsets(self, spark: SparkSession, batch: int) -> dict[int, int]:
        """By watched source the last entry of its log that a micro-batch takes; none before the first one."""
        if batch < 0:
            return {}
        path = f"{self.checkpoint}/offsets/{batch}"
        lines = (read_text(spark, path) or "").splitlines()
        if not lines or lines[0] != "v1":
            raise UnsupportedError(f"start: Spark's log {path} is of a kind that we do not know: {lines[:1]}")
        told = enumerate(lines[2 : 2 + len(self.watched)])
        return {n: int(json.loads(line)["logOffset"]) for n, line in told if line != "-"}

    def _named(self, spark: SparkSession, source: int, entries: range) -> set[str]:
        """The files that some entries of a log name."""
        if not entries:
            return set()
        found: dict[int, set[str]] = {n: set() for n in entries}
        for line in self._lines(spark, f"{self.checkpoint}/sources/{source}", entries):
            told = _BATCH.search(line)
            if told and int(told[1]) in found:
                found[int(told[1])].add(file_name(unquote(json.loads(line)["path"])))
        empty = [n for n, names in found.items() if not names]
        if empty:
            raise UnsupportedError(f"start: Spark's log {self.checkpoint}/sources/{source} names no files in {empty}")
        return set().union(*found.values())

    def _lines(self, spark: SparkSession, folder: str, entries: range) -> Iterable[str]:
        if on_this_machine(spark, folder) is None:
            # Names are not known, as Spark puts many entries into one file at times.
            yield from (read_text(spark, folder) or "").splitlines()
            return
        for number in entries:
            texts = (read_text(spark, f"{folder}/{number}{kind}") for kind in ("", ".compact"))
            yield from next((t for t in texts if t is not None), "").splitlines()


def _state(path: str) -> str:
    try:
        return f"has {os.path.getsize(path)} bytes"
    except OSError:
        return "is gone"
