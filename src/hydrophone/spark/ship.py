"""Bring this package to the executors of a cluster that does not have it."""

from __future__ import annotations

import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from hydrophone.model import compiled_cache
from hydrophone.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EPOCH = (1980, 1, 1, 0, 0, 0)


def ship(spark: SparkSession) -> None:
    """Send the package as it is installed here to every executor that works for this session.

    Only Hydrophone itself travels: the Python of the executors must have what it needs (NumPy, SciPy, PyArrow, Narwhals,
    Numba, pandas, protobuf) and be of the same minor version as this one. Loops that this machine has compiled go along
    (``hydrophone warm`` compiles all of them), and serve executors with the same processor and the same version of Numba.
    Sending it again does nothing. Through Spark Connect it reaches batch queries alone: Spark 4.3 does not give what a
    session sent to the stateful tasks of its streams.
    """
    spark.addArtifacts(str(_sent()), pyfile=True)


@cache
def _sent() -> Path:
    """The file that this process sends, always the same: Spark refuses another one of the same name."""
    return zipped(Path(_folder().name))


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Where the file stays as long as this process: executors that start later fetch it from here."""
    return tempfile.TemporaryDirectory(prefix="hydrophone-")


def zipped(folder: Path) -> Path:
    """The package with its compiled loops as a zip file in `folder`, for `ship` or ``spark-submit --py-files``.

    Equal files give equal bytes.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     zipped(Path(folder)).name == f"hydrophone-{__version__}.zip"
    True
    """
    home = Path(__file__).parents[1]
    target = folder / f"hydrophone-{__version__}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted([*home.rglob("*.py"), home / "py.typed"]):
            name = Path("hydrophone") / path.relative_to(home)
            file.writestr(zipfile.ZipInfo(name.as_posix(), _EPOCH), path.read_bytes())
        for path in compiled_cache.files():
            name = Path("hydrophone") / compiled_cache.SHIPPED / path.name
            file.writestr(zipfile.ZipInfo(name.as_posix(), _EPOCH), path.read_bytes())
    return target
