"""The command line: run, explain, inspect, doctor, warm, state, hub, demo, bench."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from io import TextIOWrapper
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

import hydrophone
from hydrophone.cli.hub import add_hub
from hydrophone.cli.inspect_files import add_inspect, inspect
from hydrophone.cli.progress_bar import working
from hydrophone.cli.query_file import Terminated, UsageError, load
from hydrophone.cli.show import show
from hydrophone.compiler.explain import STAGES
from hydrophone.connect.files import list_files, write_then_rename
from hydrophone.connect.output_conflicts import check_output_apart
from hydrophone.errors import HydrophoneError, ParameterError
from hydrophone.plan.source import places_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from hydrophone.api import Query

_EPILOG = """\
exit codes:
  0    done
  1    it failed; the message on standard error says why
  2    the command makes no sense: an unknown option, no such file, no such query in it
  130  stopped by Ctrl-C; 143 by a request to terminate. No output is left behind.
"""
_OTHERS = re.compile(
    r"\.(csv|tsv|txt|json|jsonl|ndjson|xlsx?|arrow|feather|ipc|orc|avro|h5|hdf5|npy|npz|gz|bz2|zst|zip)", re.IGNORECASE
)
"""Suffixes of formats that are not supported: they would become folders of Parquet files."""
_SHOWN = 20
"""Rows that `run` shows when it has nowhere to write to."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code.

    Examples
    --------
    >>> main(["run", "nowhere.py:query"])
    2
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        options = _parser().parse_args(given)
    except SystemExit as end:  # argparse has printed the error or the help
        return int(end.code or 0)
    try:
        with _terminable(), _without_py4j_traces(options.debug):
            if isinstance(sys.stdout, TextIOWrapper):  # none where it is closed
                sys.stdout.reconfigure(errors="backslashreplace")  # the terminal's encoding has no such character
            code: int = options.command(options)
            if sys.stdout is not None:
                sys.stdout.flush()
            return code
    except KeyboardInterrupt:
        return _failed("interrupted", 130, options.debug)
    except Terminated:
        return _failed("terminated", 128 + signal.SIGTERM, options.debug)
    except BrokenPipeError:
        # The reader of our output (head, less) has closed the pipe. Python would raise again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except UsageError as error:
        return _failed(str(error), 2, options.debug)
    except HydrophoneError as error:
        if error.where and error.where.rpartition(":")[0] == os.path.basename(sys.argv[0]):
            error.where = None  # a line of this program, not of the user's file: leave it out
        return _failed(str(error), 1, options.debug)
    except OSError as error:
        return _failed(_system_error(error), 1, options.debug)
    except ModuleNotFoundError as error:
        return _failed(_not_installed(error), 1, options.debug)
    except Exception as error:  # a user's function may raise anything; only the command line catches it all
        return _failed(_foreign_error(error), 1, options.debug)


# --- commands ---------------------------------------------------------------------------------------------------------


def run(options: argparse.Namespace) -> int:
    """Run a query and write, or show, its answer."""
    query, module = load(options.query)
    _check_path(options, module)
    start = time.perf_counter()
    # No summary line for rows that are shown; only for output that is written.
    with working(f"running {options.query} on {options.engine}", _terminal()) if options.to else nullcontext():
        rows = _run_on_spark(query, module, options) if options.engine == "spark" else _run_here(query, options)
    if options.to is not None:
        count = "" if rows is None else f"{rows:,} rows "
        print(f"wrote {count}to {options.to} ({options.engine}, {time.perf_counter() - start:.1f} s)", file=sys.stderr)
    return 0


def _check_path(options: argparse.Namespace, module: ModuleType) -> None:
    """Refuse an impossible output path before anything runs."""
    if options.to is None:
        return
    if not options.to:
        raise UsageError("run: --to needs a path", hint="without --to the first rows are shown")
    if os.path.exists(options.to) and os.path.samefile(options.to, module.__file__ or ""):
        raise UsageError(f"run: {options.to} is the file of the query", hint="choose another path")
    if "://" in options.to and options.engine != "spark":
        raise UsageError(f"run: the local engine cannot write to {options.to}", hint="add --engine spark")
    if _OTHERS.fullmatch(os.path.splitext(options.to)[1]) and not options.to.endswith(".csv"):
        raise UsageError(
            f"run: {options.to}: results are written as CSV (*.csv) or Parquet (*.parquet, or a folder)",
            hint="choose a name that says so",
        )


def _terminal() -> TextIO | None:
    """A second handle to standard error, if it is a terminal: the usual one is muted while Spark starts."""
    return os.fdopen(os.dup(2), "w") if sys.stderr.isatty() else None


def _run_here(query: Query, options: argparse.Namespace) -> int | None:
    if options.plan != "auto":
        raise UsageError(f"run: --plan {options.plan} is a way of Spark's", hint="add --engine spark")
    if options.to is None:
        _show_rows(query.to_arrow(options.shape))
        return None
    with _flag_in_hints():
        if options.to.endswith(".csv"):
            if options.shape != "rows":
                raise UsageError("run: a CSV file holds rows, not segments", hint="write Parquet: --to out.parquet")
            query.to_csv(options.to, overwrite=options.overwrite)
            return None
        query.to_parquet(options.to, shape=options.shape, overwrite=options.overwrite)
    return _rows_of(options.to)


def _run_on_spark(query: Query, module: ModuleType, options: argparse.Namespace) -> int | None:
    from hydrophone.spark.failures import disk_errors
    from hydrophone.spark.quiet_start import quiet_start
    from hydrophone.spark.session import session

    with ExitStack() as stack:
        # Check the path first: Spark takes seconds to start.
        local = options.to is not None and "://" not in options.to
        draft = options.to
        if local:
            stack.enter_context(_flag_in_hints())
            writes = ".csv" if options.to.endswith(".csv") else ".parquet"
            check_output_apart(places_of(query.node), options.to, what="run", writes=writes)
            draft = str(stack.enter_context(write_then_rename(options.to, what="run", overwrite=options.overwrite)))
        _ship(module)
        with quiet_start(loud=options.debug):
            name = f"hydrophone run {options.query}"
            spark = session(name, conf={"spark.job.description": name})
            stack.callback(spark.stop)
            if not options.debug:
                # A failed job also raises an exception, which we print in one line.
                spark.sparkContext.setLogLevel("FATAL")
        frame = query.to_spark(spark, plan=options.plan, shape=options.shape)
        if draft is None:
            _show_rows(frame.limit(_SHOWN + 1).toArrow(), counted=False)
            return None
        with disk_errors(options.to):
            _write_frame(frame, draft, csv=options.to.endswith(".csv"), overwrite=options.overwrite and not local)
    return None if options.to.endswith(".csv") or not local else _rows_of(options.to)


def _ship(module: ModuleType) -> None:
    """Send the functions of the user's file to Spark's workers, with the modules beside it."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    beside = os.path.dirname(os.path.abspath(module.__file__ or ""))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [beside, os.environ.get("PYTHONPATH")]))


def _write_frame(frame: DataFrame, path: str, *, csv: bool, overwrite: bool) -> None:
    writer = frame.write.mode("overwrite" if overwrite else "errorifexists")
    if csv:
        writer.csv(path, header=True)
    else:
        writer.parquet(path)


def _rows_of(path: str) -> int:
    return sum(pq.read_metadata(file).num_rows for file in list_files(path, what="run"))


def _show_rows(table: pa.Table, counted: bool = True) -> None:
    cells = table.slice(0, _SHOWN).to_pydict()
    show(list(cells), [[_cell(v) for v in row] for row in zip(*cells.values(), strict=True)])
    if len(table) > _SHOWN:
        total = f"{len(table):,} rows" if counted else "more rows"
        print(f"... the first {_SHOWN} of {total}; --to PATH writes all of them", file=sys.stderr)


def _cell(value: object) -> str:
    if isinstance(value, dict) and list(value) == ["re", "im"]:
        if isinstance(value["re"], list):
            return _cell([complex(*parts) for parts in zip(*value.values(), strict=True)])
        return f"{complex(value['re'], value['im']):.6g}"
    text = f"{value:.9g}" if isinstance(value, float) else "" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def explain(options: argparse.Namespace) -> int:
    """Print what a query does."""
    print(load(options.query)[0].explain(options.stage))
    return 0


def doctor(options: argparse.Namespace) -> int:
    """Look at the installation."""
    from hydrophone.cli import doctor as examination

    return examination.report(spark=options.spark)


def warm(options: argparse.Namespace) -> int:
    """Compile all loops beforehand."""
    from hydrophone.cli.warm import report

    return report()


def state_show(options: argparse.Namespace) -> int:
    """Print the facts about a checkpoint."""
    from hydrophone.cli.checkpoint import describe_checkpoint

    for title, facts in describe_checkpoint(options.checkpoint):
        print(title)
        show(None, [[f"  {name}", str(value)] for name, value in facts])
    return 0


def _delegate(module: str) -> Callable[[argparse.Namespace], int]:
    """A command whose options another module parses."""

    def command(options: argparse.Namespace) -> int:
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name not in (module, module.rpartition(".")[0]):
                raise
            raise UsageError(f"this installation has no {module}") from None
        try:
            return int(found.main(options.arguments) or 0)
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else int(end.code is not None)

    return command


# --- options ----------------------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help="show where an error came from")
    parser = argparse.ArgumentParser(
        prog="hydrophone",
        description="Listen to signals in streams and lakes.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(debug=False)
    parser.add_argument("--version", action="version", version=f"hydrophone {hydrophone.__version__}")
    parser.add_argument("--debug", action="store_true", help="show where an error came from")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def add(name: str, command: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(
            name,
            help=text[0].lower() + text[1:-1],
            description=text,
            parents=[common],
            epilog=_EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        made.set_defaults(command=command)
        return made

    _add_run(add("run", run, "Run a query from a Python file and write its answer."))
    explained = add("explain", explain, "Print what a query does.")
    _add_query(explained)
    explained.add_argument(
        "--stage", choices=[*STAGES, "spark"], default="logical", help="how far on the way to running"
    )
    add_inspect(
        add("inspect", inspect, "Report what lies in files: keys, spans, rates, gaps, duplicates and back-jumps.")
    )
    checked = add("doctor", doctor, "Check the installation, and say how to mend it.")
    checked.add_argument("--spark", action="store_true", help="also run a small job on Spark")
    add("warm", warm, "Compile all loops beforehand, so that no query waits for it; ship(spark) sends them along.")
    state = add("state", lambda _: 2, "Look into a checkpoint.").add_subparsers(metavar="COMMAND", required=True)
    shown = state.add_parser("show", help="what a checkpoint belongs to and how far it is", parents=[common])
    shown.add_argument("checkpoint", metavar="CHECKPOINT", help="the folder that start(checkpoint=...) was given")
    shown.set_defaults(command=state_show)
    add_hub(add("hub", lambda _: 2, "Run a hub, and let queries join and leave it."), common)
    for name, module, text in (
        ("demo", "hydrophone.apps.demo", "Run the demo; its options follow."),
        ("bench", "hydrophone.bench.__main__", "Run benchmarks; their options follow."),
    ):
        # The other module parses the rest, --help included.
        made = commands.add_parser(name, help=text[0].lower() + text[1:-1], add_help=False, prefix_chars="\0")
        made.add_argument("arguments", nargs="*")
        made.set_defaults(command=_delegate(module))
    return parser


def _add_query(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("query", metavar="FILE.py:QUERY", help="a Python file and the name of a query in it")


def _add_run(parser: argparse.ArgumentParser) -> None:
    _add_query(parser)
    parser.add_argument("--engine", choices=["local", "spark"], default="local", help="who runs it (default: local)")
    parser.add_argument(
        "--to",
        metavar="PATH",
        help="*.csv is written as CSV, all else as Parquet; without it the first rows are shown. "
        "The local engine writes a file to *.csv and *.parquet and a folder to other names, Spark always a folder",
    )
    parser.add_argument(
        "--shape", choices=["rows", "segments"], default="rows", help="a row per sample, or one per contiguous run"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an output that exists")
    parser.add_argument(
        "--plan", choices=["auto", "slices", "keys", "shards"], default="auto", help="how Spark divides the work"
    )


# --- errors -----------------------------------------------------------------------------------------------------------


def _failed(message: str, code: int, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    print(f"hydrophone: {message}", file=sys.stderr)
    return code


def _system_error(error: OSError) -> str:
    """An error of the operating system in one line; which file, if it is known."""
    reason = error.strerror or str(error)
    # Arrow's text already contains the error number.
    match = re.search(r"\[errno (\d+)\]", str(error))
    if error.errno is None and match:
        reason = os.strerror(int(match[1]))
    return f"{reason}: {error.filename}" if error.filename else reason


def _not_installed(error: ModuleNotFoundError) -> str:
    """The message for an optional extra that is not installed; other modules are reported like any error."""
    from hydrophone.cli.doctor import how_to_install

    hint = how_to_install(error.name)
    return f"{error.name} is not installed\n  Hint: {hint}" if hint else _foreign_error(error)


def _foreign_error(error: Exception) -> str:
    """A foreign error, of a user's function or of Spark, in one line."""
    text = str(error).strip()
    hint = "\n  Hint: --debug shows where it came from"
    # Spark wraps what a task raised in Java's traces and Python's; the last line that names an error is the cause.
    inner = re.findall(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception|Interrupt)): (.*)$", text, re.MULTILINE)
    if type(error).__module__.startswith(("pyspark", "py4j")) and inner:
        ours = [i for i in inner if i[0] in dir(hydrophone)]
        kind, message = (ours or inner)[-1]
        return (message if ours else f"{kind}: {message}") + hint
    return f"{type(error).__name__}: {(text.splitlines() or [''])[0]}{hint}"


@contextmanager
def _flag_in_hints() -> Iterator[None]:
    """Say `--overwrite` where the library says ``overwrite=True``."""
    try:
        yield
    except ParameterError as error:
        if error.hint:
            error.hint = error.hint.replace("overwrite=True", "--overwrite")
        raise


@contextmanager
def _terminable() -> Iterator[None]:
    """Handle SIGTERM like Ctrl-C, so that no half-written file stays."""

    def end(number: int, frame: FrameType | None) -> NoReturn:
        raise Terminated

    try:
        before: Any = signal.signal(signal.SIGTERM, end)
    except ValueError:  # not the main thread: the caller handles signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _without_py4j_traces(debug: bool) -> Iterator[None]:
    """Suppress the traces that Py4J logs for calls ended by an interrupt; we report the interrupt."""

    def passes(record: logging.LogRecord) -> bool:
        return debug or "while sending command" not in str(record.msg)

    root = logging.getLogger()
    root.addFilter(passes)
    try:
        yield
    finally:
        root.removeFilter(passes)


if __name__ == "__main__":
    sys.exit(main())
