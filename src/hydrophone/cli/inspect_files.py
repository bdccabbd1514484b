"""``hydrophone inspect``: what lies in files, and what their clocks do."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from hydrophone.api import Query, read
from hydrophone.cli.query_file import UsageError
from hydrophone.connect.binary import BinaryData
from hydrophone.connect.csv import CsvData
from hydrophone.connect.edf import EdfData
from hydrophone.connect.files import list_files
from hydrophone.connect.hdf5 import Hdf5Data
from hydrophone.connect.miniseed import MiniseedData
from hydrophone.connect.parquet import ParquetData
from hydrophone.connect.sac import SacData
from hydrophone.connect.wav import WavData
from hydrophone.connect.wfdb import WfdbData

_RECORDINGS: dict[tuple[str, ...], Callable[..., Query]] = {
    WavData.suffixes: read.wav,
    MiniseedData.suffixes: read.miniseed,
    SacData.suffixes: read.sac,
    EdfData.suffixes: read.edf,
    WfdbData.suffixes: read.wfdb,
    Hdf5Data.suffixes: read.hdf5,
    BinaryData.suffixes: read.binary,
}
_TABLES: dict[tuple[str, ...], Callable[..., Query]] = {
    ParquetData.suffixes: read.parquet,
    CsvData.suffixes: read.csv,
}


def add_inspect(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("path", metavar="PATH", help="a file, a folder, or a pattern in quotes")
    parser.add_argument("--time", metavar="COLUMN", help="the column of times, of Parquet and CSV files")
    parser.add_argument("--key", metavar="COLUMN", action="append", help="a key column of such files; once for each")
    parser.add_argument("--rate", metavar="RATE", help="the rate of files that do not tell it, such as 25.6kHz")


def inspect(options: argparse.Namespace) -> int:
    """Print a report for every format that is there."""
    known = [suffix for suffixes in (*_RECORDINGS, *_TABLES) for suffix in suffixes]
    files = list_files(options.path, what="inspect", suffixes=known)
    kinds = list(dict.fromkeys(_kind_of(path) for path in files))
    for number, suffixes in enumerate(kinds):
        mine = [path for path in files if _kind_of(path) == suffixes]
        query = _query(options, suffixes, options.path if len(kinds) == 1 else mine)
        print(("\n" if number else "") + f"{options.path}: {len(mine)} files, {query!r}")
        print(query.describe())
    return 0


def _kind_of(path: str) -> tuple[str, ...]:
    for suffixes in (*_RECORDINGS, *_TABLES):
        if path.endswith(suffixes):
            return suffixes
    raise UsageError(
        f"inspect: {path} is of no known format", hint="known are " + ", ".join(s[0] for s in (*_RECORDINGS, *_TABLES))
    )


def _query(options: argparse.Namespace, suffixes: tuple[str, ...], paths: Any) -> Query:
    if suffixes in _RECORDINGS:
        rate = {} if options.rate is None else {"rate": options.rate}
        if suffixes == BinaryData.suffixes and not rate:
            raise UsageError(
                "inspect: plain binary files tell nothing of their layout", hint="use hp.read.binary(...).describe()"
            )
        return _RECORDINGS[suffixes](paths, **rate)
    if options.time is None:
        raise UsageError(
            f"inspect: {options.path} holds tables: which column has the times?", hint="--time ts --key sensor"
        )
    return _TABLES[suffixes](paths, time=options.time, key=options.key or ())
