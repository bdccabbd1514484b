"""Where the results of a running query go, as the user writes it: ``hp.write.parquet(...)``."""

from __future__ import annotations

from os import PathLike

from hydrophone.connect.csv import Csv
from hydrophone.connect.hdf5_sink import Hdf5
from hydrophone.connect.memory import Memory
from hydrophone.connect.miniseed_sink import ENCODINGS, Miniseed
from hydrophone.connect.parquet import Parquet
from hydrophone.connect.ring.sink import Ring, ring_sink
from hydrophone.connect.sink import Sink
from hydrophone.connect.table import Table
from hydrophone.connect.wav_sink import SUBTYPES, Wav
from hydrophone.errors import ParameterError, path_text, user_line
from hydrophone.model.time import Duration

__all__ = [
    "Csv",
    "Hdf5",
    "Memory",
    "Miniseed",
    "Parquet",
    "Ring",
    "Sink",
    "Table",
    "Wav",
    "csv",
    "hdf5",
    "memory",
    "miniseed",
    "parquet",
    "ring",
    "table",
    "wav",
]


def check(to: object, what: str) -> None:
    """Refuse what is no sink: the path alone does not say what to write."""
    if not isinstance(to, Sink):
        raise ParameterError(
            f"{what}: {to!r} is no place for results", hint='say what to write: to=hp.write.parquet("clean/")'
        )


def parquet(path: str | PathLike[str]) -> Parquet:
    """Write Parquet files under `path`.

    Every micro-batch has a folder of its own, which is written whole: a micro-batch that is run again after a crash
    replaces its folder with an equal one, so each result is there once. Readers (`hydrophone.api.read.parquet`, Spark and
    others) see a column ``batch``.

    Examples
    --------
    >>> parquet("clean/")
    Parquet(path='clean/')
    """
    return Parquet(path_text(path, "write.parquet: path"))


def csv(path: str | PathLike[str]) -> Csv:
    """Write CSV files under `path`; complex values are ``value.re`` and ``value.im``, and windows have no place in a cell.

    Of a stream, micro-batches are written whole and replaced whole, as by `parquet`.

    Examples
    --------
    >>> csv("clean/")
    Csv(path='clean/')
    """
    return Csv(path_text(path, "write.csv: path"))


def table(name: str, format: str | None = None) -> Table:
    """Write a table of Spark's catalogue, such as ``"lab.clean"``; `format` is one that Spark knows (by default its own choice).

    A stream makes the table if there is none, partitioned by ``query`` (an id that the checkpoint holds) and ``batch``, and
    every micro-batch overwrites its own partition. So each result is there once when the query has gone on from a crash.
    What readers see in between is up to the format: with plain files they may meet a partition that is being replaced, and
    a session that has read the table before must look anew (``spark.catalog.refreshTable``).

    Examples
    --------
    >>> table("lab.clean")
    Table(name='lab.clean', format=None)
    """
    if not isinstance(name, str) or not name.strip():
        raise ParameterError(
            f"write.table: name must be a text, got {name!r}", hint='hp.write.table("lab.clean")', where=user_line()
        )
    return Table(name, format)


def memory() -> Memory:
    """Keep the results in this process, for tests and small things.

    Examples
    --------
    >>> memory().batches
    {}
    """
    return Memory()


def wav(path: str | PathLike[str], *, subtype: str | None = None, start_in_name: bool = False) -> Wav:
    """Write a uniform signal as WAV files: one for every key in the folder `path`, or a single file if it ends in ``.wav``.

    A run in this process writes them (``signal.save(hp.write.wav(...))``); tasks of Spark cannot. A file is named by its key. It holds
    no gaps and no time of its first sample; with `start_in_name` its name does, as ``read.wav(..., pattern=r"...(?P<start>[0-9T.]+)")``
    reads it.

    Parameters
    ----------
    subtype : "PCM_16", "PCM_24", "PCM_32", "FLOAT" or "DOUBLE", optional
        How samples are stored; by default so that no bit is lost. Floats are fractions of full scale, rounded to the nearest integer for
        the first three; what lies beyond full scale is an error.

    Examples
    --------
    >>> import hydrophone as hp, numpy as np, pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp(), "out")
    >>> hp.from_numpy({"a": np.zeros(4), "b": np.ones(4)}, rate="8kHz").save(hp.write.wav(folder))
    >>> sorted(p.name for p in folder.iterdir())
    ['a.wav', 'b.wav']
    """
    if subtype is not None and subtype not in SUBTYPES:
        raise ParameterError(f"write.wav: subtype must be one of {', '.join(SUBTYPES)}, got {subtype!r}")
    return Wav(path_text(path, "write.wav: path"), subtype, start_in_name)


def miniseed(
    path: str | PathLike[str], *, encoding: str | None = None, version: int = 3, record_length: int = 4096
) -> Miniseed:
    """Write a uniform signal, keyed by network, station, location and channel, as one MiniSEED file. Gaps stay.

    A run in this process writes it; tasks of Spark cannot.

    Parameters
    ----------
    encoding : "STEIM1", "STEIM2", "INT32", "FLOAT32" or "FLOAT64", optional
        By default Steim 2 for integers, and floats as they are. Samples that it would change are an error.
    version : 2 or 3
        Version 2 holds times in microseconds, and refuses finer ones.

    Examples
    --------
    >>> miniseed("day.mseed").encoding is None
    True
    """
    if encoding is not None and encoding not in ENCODINGS:
        raise ParameterError(f"write.miniseed: encoding must be one of {', '.join(ENCODINGS)}, got {encoding!r}")
    if version not in (2, 3):
        raise ParameterError(f"write.miniseed: version must be 2 or 3, got {version!r}")
    return Miniseed(path_text(path, "write.miniseed: path"), encoding, version, record_length)


def hdf5(path: str | PathLike[str]) -> Hdf5:
    """Write a uniform signal as one HDF5 file: a dataset for every key, with the attributes ``rate`` and ``start``, as `read.hdf5` reads.

    A run in this process writes it; tasks of Spark cannot. A dataset holds no gaps.

    Examples
    --------
    >>> import hydrophone as hp, numpy as np, tempfile
    >>> path = tempfile.mkdtemp() + "/a.h5"
    >>> hp.from_numpy(np.arange(3.0), rate="44.1kHz", start="2026-01-01", key="pump").save(hp.write.hdf5(path))
    >>> hp.read.hdf5(path).to_arrow()["value"].to_pylist()
    [0.0, 1.0, 2.0]
    """
    return Hdf5(path_text(path, "write.hdf5: path"))


def ring(
    path: str | PathLike[str],
    *,
    size: int | str = "64MB",
    readers: int = 1,
    patience: Duration | None = "1min",
    checksums: bool = True,
) -> Ring:
    """Write the results of a subscription, and their marks, into shared memory that other processes of this machine read.

    One subscription of a `hydrophone.Graph` writes it (or a whole answer: ``query.save(...)``), and up to 64 readers follow:
    `hydrophone.read.ring`. A reader that dies is dropped and counted; one that is slow holds up the writer.

    Parameters
    ----------
    path : path of the ring
        A bare name is a file of ``/dev/shm``, which is memory. Its owner alone may read it.
    size : int or str
        Bytes of memory. A message takes a quarter of it at most; more rows are several messages.
    readers : int
        How many readers the first row waits for. Others may join later, and read from then on.
    patience : duration or None
        How long to wait for these readers, and for a reader that leaves no room in the ring: then it is dropped, and ends with an
        error. None: for as long as it lives.
    checksums : bool
        Whether messages have a CRC, which readers check.

    Examples
    --------
    >>> ring("hydrophone-readings", size="16MB", readers=2)
    Ring(path='hydrophone-readings', size=16777216, readers=2, patience=60.0, checksums=True)
    """
    return ring_sink(path_text(path, "write.ring: path"), size, readers, patience, checksums)
