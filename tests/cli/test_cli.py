"""The command line as a user meets it: real processes, real files, what they print and what they leave behind."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hydrophone
from hydrophone import cli

PIPELINE = """
import numpy as np
import pyarrow as pa
import hydrophone as hp

rows = hp.from_arrow(pa.table({"k": ["a"] * 100, "t": list(range(100)), "v": [float(i) for i in range(100)]}), key="k", time="t")
signal = rows.signal("v").sample(1)
spectra = signal.window(10).rfft()
number = 7

def double(windows):
    return windows * 2

doubled = signal.window(10).map(double).overlap_add()

def broken(windows):
    if windows.max() > 5:  # not yet while the query is built
        raise RuntimeError("the sky is falling")
    return windows

wrong = signal.window(10).map(broken)
twice = hp.from_arrow(pa.table({"t": [1, 1], "v": [1.0, 2.0]}), time="t").signal("v").sample(1)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pipeline.py").write_text(PIPELINE)
    return tmp_path


Near = Callable[..., subprocess.CompletedProcess[str]]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "hydrophone", *arguments]


def call(
    *arguments: str, cwd: Path, before: Callable[[], None] | None = None, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=240,
        preexec_fn=before,
        env={**os.environ, **(environment or {})},
    )


@pytest.fixture
def near(folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Near]:
    """Call the command in this process, where a process of its own (seconds) would show nothing more."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        code = cli.main(arguments)
        return subprocess.CompletedProcess(arguments, code, *capfd.readouterr())

    before = set(sys.modules)
    yield call
    for name in sys.modules.keys() - before:  # the user's own, and nothing that they import
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(folder)):
            del sys.modules[name]


def outputs(folder: Path) -> list[str]:
    """What is there beside the queries, hidden names too."""
    return sorted(n for n in os.listdir(folder) if not n.endswith(".py") and n != "__pycache__")


def fails(result: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert result.returncode == code, result.stderr
    assert result.stderr.startswith("hydrophone: ") or "usage:" in result.stderr
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr


# --- run --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["out.parquet", "out"])
def test_run_writes_parquet(folder: Path, name: str) -> None:
    result = call("run", "pipeline.py:signal", "--to", name, cwd=folder)
    assert result.returncode == 0, result.stderr
    assert result.stderr.startswith(f"wrote 100 rows to {name} (local, ")
    assert pq.read_table(folder / name).num_rows == 100
    assert outputs(folder) == [name]


def test_run_writes_segments_and_csv(near: Near, folder: Path) -> None:
    assert near("run", "pipeline.py:signal", "--to", "s.parquet", "--shape", "segments").returncode == 0
    assert pq.read_table(folder / "s.parquet").num_rows == 1
    assert near("run", "pipeline.py:signal", "--to", "out.csv").returncode == 0
    assert (folder / "out.csv").read_text().splitlines()[:2] == ['"k","t","value"', '"a",0,0']
    fails(near("run", "pipeline.py:signal", "--to", "x.csv", "--shape", "segments"), 2, "--to out.parquet")
    fails(near("run", "pipeline.py:spectra", "--to", "x.csv"), 1, "no place in a cell")
    assert outputs(folder) == ["out.csv", "s.parquet"]


def test_run_without_a_path_shows_the_first_rows(near: Near, folder: Path) -> None:
    result = near("run", "pipeline.py:signal")
    assert result.stdout.splitlines()[:3] == ["k  t   value", "a  0   0", "a  1   1"]
    assert result.stderr == "... the first 20 of 100 rows; --to PATH writes all of them\n"
    assert outputs(folder) == []


@pytest.mark.parametrize(
    ("to", "words"),
    [
        ("", "--to needs a path"),
        ("out.json", "out.json: results are written as CSV (*.csv) or Parquet"),
        ("out.csv.gz", "*.csv"),
        ("out.CSV", "*.csv"),
        ("s3://bucket/x", "add --engine spark"),
        ("./pipeline.py", "is the file of the query"),
    ],
)
def test_a_path_that_cannot_be_meant(near: Near, folder: Path, to: str, words: str) -> None:
    fails(near("run", "pipeline.py:signal", "--to", to, "--overwrite"), 2, words)
    assert (folder / "pipeline.py").read_text() == PIPELINE and outputs(folder) == []


def test_the_root_is_no_output(near: Near) -> None:
    fails(near("run", "pipeline.py:signal", "--to", "/"), 1, "/ exists already")
    fails(near("run", "pipeline.py:signal", "--to", "/", "--overwrite"), 1, "holds other things than a result")


def test_files_that_end_in_odd_ways(near: Near, folder: Path) -> None:
    (folder / "base.py").write_text("class Odd(BaseException): pass\n\nraise Odd('really')\n")
    fails(near("run", "base.py:query"), 1, "base.py:3: Odd: really")
    (folder / "nul.py").write_bytes(b"x = 1\n\x00\n")
    fails(near("run", "nul.py:query"), 1, "nul.py: source code string cannot contain null bytes")


def test_the_package_runs_as_a_module(folder: Path) -> None:
    line = [sys.executable, "-m", "hydrophone", "explain", "pipeline.py:signal"]
    assert "sample" in subprocess.run(line, cwd=folder, capture_output=True, text=True, check=True).stdout


def test_our_own_lines_are_not_the_user_s(folder: Path) -> None:
    result = call("run", "pipeline.py:rows", "--shape", "segments", cwd=folder)
    fails(result, 1, "only a uniform signal leaves as segments")
    assert "cli.py" not in result.stderr


def test_an_output_that_exists_is_kept(near: Near, folder: Path) -> None:
    (folder / "out.parquet").write_text("mine")
    result = near("run", "pipeline.py:signal", "--to", "out.parquet")
    fails(result, 1, "out.parquet exists already", "Hint: choose another path, or --overwrite")
    assert (folder / "out.parquet").read_text() == "mine"
    assert near("run", "pipeline.py:signal", "--to", "out.parquet", "--overwrite").returncode == 0
    assert pq.read_table(folder / "out.parquet").num_rows == 100


def test_a_query_that_fails_says_which_line_made_it(near: Near, folder: Path) -> None:
    fails(near("run", "pipeline.py:twice", "--to", "out"), 1, "at pipeline.py:22")
    assert outputs(folder) == []


def test_a_users_function_that_fails_is_one_line(near: Near, folder: Path) -> None:
    result = near("run", "pipeline.py:wrong", "--to", "out")
    fails(result, 1, "the sky is falling")
    debug = near("run", "pipeline.py:wrong", "--to", "out", "--debug")
    assert debug.returncode == 1 and "Traceback" in debug.stderr and "pipeline.py" in debug.stderr
    assert outputs(folder) == []


def test_modules_beside_the_file_can_be_imported(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    (folder / "helper.py").write_text("TAPS = [0.5, 0.5]\n")
    (folder / "signal.py").write_text(
        "from pipeline import signal\nfrom helper import TAPS\nsmooth = signal.fir(TAPS)\n"
    )
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    result = call("run", f"{folder}/signal.py:smooth", "--to", "out.parquet", cwd=elsewhere)
    assert result.returncode == 0, result.stderr


# --- what is wrong with the query ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import hydrophone as hp\nquery = 1 +\n", ["bad.py:2: invalid syntax"]),
        ("x = 1\nquery = y\n", ["bad.py:2: NameError: name 'y' is not defined"]),
        ("import no_such_thing\n", ["bad.py:1: ModuleNotFoundError: No module named 'no_such_thing'"]),
        ("import sys\nsys.exit(3)\n", ["ends the program", "exit code 3"]),
        (
            "import hydrophone as hp\nquery = hp.read.parquet('no/', time='t')\n",
            ["read.parquet: there is no file or folder 'no/'"],
        ),
    ],
)
def test_a_file_that_does_not_import(near: Near, folder: Path, text: str, words: list[str]) -> None:
    (folder / "bad.py").write_text(text)
    result = near("run", "bad.py:query", "--to", "out")
    fails(result, 1, *words)
    assert len(result.stderr.splitlines()) <= 3
    assert outputs(folder) == []


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        (
            "pipeline.py:number",
            ["'number' in pipeline.py is a int, not a query", "queries in pipeline.py: rows, signal"],
        ),
        ("pipeline.py:nothing", ["there is no 'nothing' in pipeline.py"]),
        ("pipeline.py", ["which query of pipeline.py?"]),
        ("nowhere.py:query", ["there is no file nowhere.py"]),
        ("pipeline", ["'pipeline' is no query"]),
    ],
)
def test_a_name_that_is_no_query(near: Near, reference: str, words: list[str]) -> None:
    for verb in ("run", "explain"):
        fails(near(verb, reference), 2, *words)


def test_a_name_that_is_no_query_in_a_process_of_its_own(folder: Path) -> None:
    fails(call("run", "pipeline.py:number", "--to", "out", cwd=folder), 2, "is a int, not a query")
    assert outputs(folder) == []


def test_usage(near: Near) -> None:
    fails(near("run", "pipeline.py:signal", "--engine", "flink"), 2, "invalid choice")
    fails(near("run", "pipeline.py:signal", "--plan", "shards", "--to", "x"), 2, "add --engine spark")
    fails(near(), 2, "COMMAND")
    assert near("--version").stdout == f"hydrophone {hydrophone.__version__}\n"
    assert "exit codes:" in near("run", "--help").stdout


# --- what is wrong with the machine ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["out.parquet", "out", "out.csv"])
def test_no_write_permission(near: Near, folder: Path, name: str) -> None:
    closed = folder / "closed"
    closed.mkdir(mode=0o555)
    if os.getuid() == 0:  # root may write into any folder, except where there are no files to be made
        closed = Path("/sys/kernel")
    result = near("run", "pipeline.py:signal", "--to", f"{closed}/{name}")
    fails(result, 1, "Permission denied" if os.getuid() else "")
    assert len(result.stderr.splitlines()) == 1
    assert not (closed / name).exists() and not list(closed.glob(".out*"))


def test_what_cannot_be_shown_is_shown_as_well_as_it_goes(folder: Path) -> None:
    (folder / "letters.py").write_text(PIPELINE.replace('["a"]', '["é"]'))
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    result = call("run", "letters.py:signal", cwd=folder, environment=plain)
    assert result.returncode == 0 and result.stdout.splitlines()[1] == r"\xe9  0   0", result
    closed = call("run", "pipeline.py:signal", "--to", "out", cwd=folder, before=lambda: os.close(1))
    assert closed.returncode == 0 and closed.stderr.startswith("wrote 100 rows"), closed.stderr
    assert call("run", "pipeline.py:signal", cwd=folder, before=lambda: os.close(1)).returncode == 0


BIG = """
import numpy as np, pyarrow as pa, hydrophone as hp

v = np.random.default_rng(0).normal(size=200_000)
query = hp.from_arrow(pa.table({'t': np.arange(200_000), 'v': v}), time='t')
"""


@pytest.mark.parametrize("name", ["out.parquet", "out", "out.csv"])
def test_no_room_for_the_output(folder: Path, name: str) -> None:
    (folder / "big.py").write_text(BIG)

    def no_large_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    result = call("run", "big.py:query", "--to", name, cwd=folder, before=no_large_files)
    fails(result, 1, "File too large")
    assert len(result.stderr.splitlines()) == 1
    assert outputs(folder) == []


SLOW = """
import time, numpy as np, pyarrow as pa, hydrophone as hp

def slow(windows):
    if windows.max() > 1000:  # not yet while the query is built
        print("running", flush=True)
        time.sleep(60)
    return windows

query = hp.from_arrow(pa.table({"t": [1, 2], "v": [1e6, 2e6]}), time="t").signal("v").sample(1).window(1).map(slow)
"""


@pytest.mark.parametrize(
    ("number", "code", "words"),
    [(signal.SIGINT, 130, "hydrophone: interrupted\n"), (signal.SIGTERM, 143, "hydrophone: terminated\n")],
)
def test_stopped_in_the_middle(tmp_path: Path, number: signal.Signals, code: int, words: str) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    with subprocess.Popen(
        command("run", "slow.py:query", "--to", "out.parquet"), cwd=tmp_path, text=True, stdout=-1, stderr=-1
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "running\n"
        time.sleep(0.2)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (code, words)
    assert outputs(tmp_path) == []


def test_stopped_while_the_file_is_imported(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time\nprint('importing', flush=True)\ntime.sleep(60)\n")
    with subprocess.Popen(command("run", "slow.py:query"), cwd=tmp_path, text=True, stdout=-1, stderr=-1) as process:
        assert process.stdout is not None and process.stdout.readline() == "importing\n"
        process.terminate()
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (143, "hydrophone: terminated\n")


WRITING = """
import time, hydrophone as hp, pyarrow as pa, pyarrow.parquet as pq

def endless(writer, table):
    print("writing", flush=True)
    time.sleep(60)

pq.ParquetWriter.write_table = endless
query = hp.from_arrow(pa.table({"t": [1]}), time="t")
"""


@pytest.mark.parametrize("name", ["out.parquet", "out"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_stopped_while_it_writes(tmp_path: Path, number: signal.Signals, code: int, name: str) -> None:
    (tmp_path / "slow.py").write_text(WRITING)
    with subprocess.Popen(
        command("run", "slow.py:query", "--to", name), cwd=tmp_path, text=True, stdout=-1, stderr=-1
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "writing\n"
        process.send_signal(number)
        process.communicate(timeout=60)
    assert process.returncode == code
    # Nothing can be tidied up after SIGKILL; what stays has a hidden name that no reader takes for data.
    left = outputs(tmp_path)
    assert left == [] if code > 0 else [n for n in left if not (n.startswith(".") and n.endswith(".partial"))] == []


def test_a_reader_that_has_seen_enough(folder: Path) -> None:
    line = " ".join(command("explain", "pipeline.py:doubled")) + " | head -c 1"
    result = subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True, timeout=60)
    assert (len(result.stdout), result.stderr) == (1, "")


# --- other commands -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["logical", "rewritten", "lowered", "stages"])
def test_explain(near: Near, stage: str) -> None:
    result = near("explain", "pipeline.py:doubled", "--stage", stage)
    assert result.returncode == 0 and "overlap_add" in result.stdout


def test_doctor_finds_this_installation_well(tmp_path: Path) -> None:
    result = call("doctor", cwd=tmp_path)
    assert result.returncode == 0, result.stdout
    assert result.stdout.endswith("all is well\n")


def test_doctor_says_how_to_mend(tmp_path: Path) -> None:
    result = call(
        "doctor", cwd=tmp_path, environment={"JAVA_HOME": "/nowhere", "PATH": "/nowhere", "XDG_CACHE_HOME": "/proc/no"}
    )
    assert result.returncode == 1
    assert "no Java 17 or newer" in result.stdout and "Hint: install a Java" in result.stdout


def test_state_show(tmp_path: Path, near: Near) -> None:
    fails(near("state", "show", "none"), 1, "there is no folder none")
    checkpoint = tmp_path / "ckpt"
    for name in ("offsets/0", "offsets/1", "commits/0"):
        (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
        (checkpoint / name).write_text("v1\n{}")
    fails(near("state", "show", "ckpt"), 1, "another Spark query")
    (checkpoint / "hydrophone.json").write_text("{")
    fails(near("state", "show", "ckpt"), 1, "hydrophone.json can't be read")
    (checkpoint / "hydrophone.json").write_text(json.dumps({"query": "0123abcd", "shards": 4}))
    result = near("state", "show", "ckpt")
    assert result.returncode == 0
    for text in ("query   0123abcd", "shards  4", "last micro-batch that is done", "runs again at the next start  "):
        assert text in result.stdout
    # As Spark writes it, where Python cannot.
    (checkpoint / "hydrophone.json").rename(checkpoint / "part-00000")
    (checkpoint / "hydrophone.json").mkdir()
    (checkpoint / "part-00000").rename(checkpoint / "hydrophone.json" / "part-00000")
    assert near("state", "show", "ckpt").stdout.startswith(result.stdout.partition("on disk")[0])


@pytest.mark.parametrize(
    ("module", "line", "extra"),
    [("pyspark", "run pipeline.py:signal --engine spark", "spark"), ("psutil", "bench run local_engine", "bench")],
)
def test_what_is_not_installed_is_said_with_its_extra(folder: Path, module: str, line: str, extra: str) -> None:
    hide = (
        f"import sys; sys.modules[{module!r}] = None; from hydrophone import cli; sys.exit(cli.main({line.split()!r}))"
    )
    result = subprocess.run([sys.executable, "-c", hide], cwd=folder, capture_output=True, text=True, timeout=120)
    fails(result, 1, f"hydrophone: {module} is not installed\n", f"pip install 'hydrophone[{extra}]'")


@pytest.mark.parametrize("name", ["demo", "bench"])
def test_other_modules_read_their_own_options(tmp_path: Path, name: str) -> None:
    result = call(name, "--help", cwd=tmp_path)
    assert result.returncode == 0 and f"usage: hydrophone {name}" in result.stdout
    assert call(name, "--no-such-option", cwd=tmp_path).returncode == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere",), "spectral"),
        (("--sensors", "0"), "at least 2, got '0'"),
        (("--seconds", "9"), "at least 120, got '9'"),
        (("--picture", "demo.doc"), ".png, .pdf, .svg, got 'demo.doc'"),
    ],
)
def test_a_demo_that_makes_no_sense(near: Near, arguments: tuple[str, ...], words: str) -> None:
    fails(near("demo", *arguments), 2, words)


def test_a_demo_has_a_name_and_looks_at_its_picture_first(near: Near) -> None:
    fails(near("demo", "spectral", "--picture", "nowhere/demo.png"), 1, "no folder 'nowhere' to write into")


def test_the_console_script_is_this_program() -> None:
    from importlib.metadata import entry_points

    (script,) = entry_points(group="console_scripts", name="hydrophone")
    assert script.load() is cli.main


# --- Spark ----------------------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_run_on_spark_ships_the_files_functions(folder: Path) -> None:
    result = call("run", "pipeline.py:doubled", "--engine", "spark", "--plan", "shards", "--to", "out", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert result.stderr.startswith("wrote 100 rows to out (spark, ") and result.stderr.count("\n") == 1
    assert sorted(pq.read_table(folder / "out")["value"].to_pylist()) == [2.0 * i for i in range(100)]
    again = call("run", "pipeline.py:doubled", "--engine", "spark", "--to", "out", cwd=folder)
    fails(again, 1, "out exists already", "--overwrite")
    assert outputs(folder) == ["out"]


@pytest.mark.spark
@pytest.mark.soak
def test_run_on_spark_may_be_loud(folder: Path) -> None:
    loud = call("run", "pipeline.py:signal", "--engine", "spark", "--to", "out", "--debug", cwd=folder)
    assert loud.returncode == 0, loud.stderr
    assert "log4j" in loud.stderr


STARTS = """
import shutil
import subprocess, sys, time
from hydrophone.spark.quiet_start import quiet_start

def say(words):
    return subprocess.Popen(["sh", "-c", words])

with quiet_start():
    lives_on = say("echo starting >&2; until test -e go; do sleep 0.1; done; cat chatter >&2; echo running >&2")
    say("echo chatter >&2").wait()
try:
    with quiet_start():
        say("echo reason >&2").wait()
        raise RuntimeError("no start")
except RuntimeError as error:
    print(error, file=sys.stderr)
with quiet_start(loud=True):
    say("echo all >&2").wait()
open("go", "w").close()
lives_on.wait()
time.sleep(1)  # another thread passes on what it says
"""


def test_what_is_said_at_the_start_is_shown_if_it_fails(tmp_path: Path) -> None:
    """What a process says later is passed on, but for what Spark's worker always says."""
    worker = "Streaming TransformWithStateInPandas Python worker"
    (tmp_path / "chatter").write_text(f"Starting {worker}.\n\n{worker} received parameters for UDF.\n\n")
    found = subprocess.run([sys.executable, "-c", STARTS], capture_output=True, text=True, cwd=tmp_path)
    assert sorted(found.stderr.splitlines()) == ["all", "no start", "reason", "running"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path | None]:
    """A folder on a disk of one megabyte; None where this user cannot mount one."""
    disk, mount = tmp_path / "disk", ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs"]
    disk.mkdir()
    mounted = shutil.which("mount") and not subprocess.run([*mount, str(disk)], capture_output=True).returncode
    yield disk if mounted else None
    if mounted:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.spark
def test_no_space_left_for_spark(folder: Path, small_disk: Path | None) -> None:
    """The disk is full; where none can be made, files may not grow."""
    values = np.random.default_rng(0).normal(size=200_000)
    pq.write_table(pa.table({"t": np.arange(len(values)), "v": values}), folder / "big.parquet")
    (folder / "big.py").write_text("import hydrophone as hp\nquery = hp.read.parquet('big.parquet', time='t')\n")

    def no_large_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

    home, before = (small_disk, None) if small_disk else (folder, no_large_files)
    there = outputs(home)
    result = call("run", "big.py:query", "--engine", "spark", "--to", f"{home}/out", cwd=folder, before=before)
    fails(result, 1, f"{'No space left on device' if small_disk else 'File too large'}: {home}/out")
    assert len(result.stderr.splitlines()) == 1
    assert outputs(home) == there


def test_no_write_permission_for_spark(folder: Path) -> None:
    """Found out before Spark starts."""
    closed = folder / "closed"
    closed.mkdir(mode=0o555)
    closed = closed if os.getuid() else Path("/sys/kernel")
    result = call("run", "pipeline.py:signal", "--engine", "spark", "--to", f"{closed}/out", cwd=folder)
    fails(result, 1, "Permission denied" if os.getuid() else "")
    assert len(result.stderr.splitlines()) == 1
    assert not (closed / "out").exists() and not list(closed.glob(".out*"))


@pytest.mark.spark
def test_a_query_that_fails_on_spark_leaves_nothing(folder: Path) -> None:
    result = call("run", "pipeline.py:wrong", "--engine", "spark", "--to", "out", cwd=folder)
    assert result.returncode == 1
    lines = result.stderr.splitlines()
    assert len(lines) == 2 and "the sky is falling" in lines[0] and "--debug" in lines[1]
    assert outputs(folder) == []


@pytest.mark.spark
def test_stopped_in_the_middle_of_a_spark_job(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW.replace('print("running", flush=True)', 'open("running", "w").close()'))
    line = command("run", "slow.py:query", "--engine", "spark", "--to", "out")
    with subprocess.Popen(line, cwd=tmp_path, text=True, stdout=-1, stderr=-1, start_new_session=True) as process:
        while not (tmp_path / "running").exists() and process.poll() is None:
            time.sleep(0.1)
        time.sleep(0.5)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.endswith("hydrophone: interrupted\n") and "Traceback" not in errors
    assert [n for n in outputs(tmp_path) if n not in ("running", "spark-warehouse")] == []


@pytest.mark.spark
def test_doctor_runs_a_job_on_spark(tmp_path: Path) -> None:
    result = call("doctor", "--spark", cwd=tmp_path)
    assert result.returncode == 0, result.stdout
    assert "a query on Spark         gives the right answer" in result.stdout
