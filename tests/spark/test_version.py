"""Spark of another version is refused in one line, by the library, the command and the doctor."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import hydrophone as hp
from hydrophone.cli import doctor
from hydrophone.spark.version import check_home, version_at

QUERY = hp.from_arrow(pa.table({"t": [0, 1], "v": [1.0, 2.0]}), time="t")


@pytest.mark.parametrize("version", ["3.5.6", "5.0.0"])
def test_a_session_of_another_version(version: str, tmp_path: Path) -> None:
    session: Any = SimpleNamespace(version=version)  # refused by its version, before anything else of it is looked at
    with pytest.raises(hp.UnsupportedError, match=rf"to_spark: the session runs Spark {version}"):
        QUERY.to_spark(session)
    with pytest.raises(hp.UnsupportedError, match=rf"start: the session runs Spark {version}"):
        QUERY.start(session, to=hp.write.memory(), checkpoint=str(tmp_path / "checkpoint"))
    assert not list(tmp_path.iterdir())


def test_what_is_no_session_is_told() -> None:
    with pytest.raises(hp.ParameterError, match="to_spark: needs a Spark session, got str"):
        QUERY.to_spark("local[2]")  # type: ignore[arg-type]


def another_spark(home: Path) -> Path:
    (home / "jars").mkdir(parents=True)
    (home / "jars" / "spark-core_2.12-3.5.6.jar").touch()
    return home


def test_this_pyspark_is_known_by_its_jars(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyspark

    home = Path(pyspark.__file__).parent
    assert version_at(home) is not None
    monkeypatch.setenv("SPARK_HOME", str(home))
    check_home(pyspark.__version__)


def test_spark_home_of_another_version(tmp_path: Path) -> None:
    (tmp_path / "query.py").write_text(
        "import pyarrow as pa, hydrophone as hp\nq = hp.from_arrow(pa.table({'t': [0]}), time='t')\n"
    )
    environment = {**os.environ, "SPARK_HOME": str(another_spark(tmp_path / "old"))}
    command = [sys.executable, "-m", "hydrophone", "run", "query.py:q", "--engine", "spark", "--to", "out"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 1
    assert done.stderr.startswith(f"hydrophone: spark: SPARK_HOME is {tmp_path}/old, which is Spark 3.5.6")
    assert "Hint: unset SPARK_HOME" in done.stderr and "Traceback" not in done.stderr
    assert not list(tmp_path.glob("*out*"))


def test_the_doctor_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(another_spark(tmp_path)))
    (found,) = (f for f in doctor.examine() if f.what == "Spark")
    assert found.state == "wrong" and "Spark 3.5.6" in found.found and "unset SPARK_HOME" in found.mend
