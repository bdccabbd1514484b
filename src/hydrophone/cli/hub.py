"""The command `hydrophone hub`: start a hub, and ask something of one that another process runs, through its folder."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hydrophone.cli.query_file import UsageError, load
from hydrophone.cli.show import show
from hydrophone.connect import write
from hydrophone.engine import emit
from hydrophone.errors import ParameterError
from hydrophone.model.time import format_instant, instant

if TYPE_CHECKING:
    from hydrophone.spark.hub.folders import HubFolder
    from hydrophone.spark.hub.subscription import HubQuery


@dataclass(frozen=True)
class Elsewhere:
    """A hub that another process runs, or will run."""

    active: bool = True


def add_hub(parser: argparse.ArgumentParser, common: argparse.ArgumentParser) -> None:
    """The options of the command."""
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def add(name: str, text: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".", parents=[common])
        made.add_argument("home", metavar="HUB", help="the folder of the hub")
        return made

    start = add("start", "run a hub until it is stopped")
    start.add_argument(
        "sources", nargs="*", metavar="FILE.py:SOURCE", help="its sources; none: a hub that was there goes on"
    )
    start.add_argument("--stages", type=int, default=2, help="how often rows may be spread by a key (2)")
    start.add_argument("--trigger", help='how often to look for new rows, such as "10s", or "available"')
    start.add_argument("--files-per-batch", type=int, help="new files of a source that a micro-batch takes at most")
    start.set_defaults(command=_start)
    subscribe = add("subscribe", "let a query join")
    subscribe.add_argument("query", metavar="FILE.py:QUERY")
    subscribe.add_argument("--to", required=True, metavar="FOLDER", help="where results go, as Parquet files")
    subscribe.add_argument("--name", required=True)
    subscribe.add_argument("--from", dest="begin", default="settled", help='"settled", "fresh" or an instant')
    subscribe.add_argument("--wait", type=float, default=60, help="seconds to wait for the answer of the hub (60)")
    subscribe.set_defaults(command=_subscribe)
    unsubscribe = add("unsubscribe", "let a query leave")
    unsubscribe.add_argument("name")
    unsubscribe.add_argument("--at", help="the end of its interval; else what has come")
    unsubscribe.add_argument("--now", action="store_true", help="do not wait for results that are not made yet")
    unsubscribe.set_defaults(command=_unsubscribe)
    add("list", "show the queries of a hub").set_defaults(command=_list)
    add("stop", "stop a hub after the running micro-batch").set_defaults(command=_stop)


def _start(options: argparse.Namespace) -> int:
    from hydrophone.api.hub import Hub
    from hydrophone.spark.quiet_start import quiet_start
    from hydrophone.spark.session import session

    sources = [load(reference)[0] for reference in options.sources]
    with quiet_start(loud=options.debug):
        spark = session(f"hydrophone hub {options.home}")
    try:
        if sources:
            given = {"stages": options.stages, "trigger": options.trigger, "files_per_batch": options.files_per_batch}
            hub = Hub(spark, *sources, checkpoint=options.home, **given)
        else:
            hub = Hub.resume(spark, options.home)
        hub.wait()
    finally:
        spark.stop()
    return 0


def _client(home: str) -> HubFolder:
    from hydrophone.spark.hub.stream import open_client

    return open_client(str(Path(home).absolute()))[0]


def _subscribe(options: argparse.Namespace) -> int:
    from pyspark import cloudpickle

    from hydrophone.spark.hub.joining import STARTS, Wanted, ask
    from hydrophone.spark.hub.stream import open_client
    from hydrophone.spark.hub.subscription import HubQuery

    folder, settings = open_client(str(Path(options.home).absolute()))
    query, module = load(options.query)
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    begin = options.begin if options.begin in STARTS else _instant(options.begin)
    wanted = Wanted(
        query.node, write.parquet(options.to), options.name, begin, emit.check_shape(query.node.type, "rows")
    )
    token, request = ask(folder, settings.sources, wanted)
    asked = HubQuery(Elsewhere(), folder, options.name, token, request)
    asked.wait_until_runs(options.wait)
    print(f"{options.name}: {asked.state}")
    return 0


def _unsubscribe(options: argparse.Namespace) -> int:
    found = _queries(_client(options.home))
    if options.name not in found:
        raise UsageError(f"the hub has no query {options.name!r}", hint=f"it has: {', '.join(found) or 'none'}")
    found[options.name].unsubscribe(None if options.at is None else _instant(options.at), options.now)
    return 0


def _list(options: argparse.Namespace) -> int:
    rows = []
    for name, query in _queries(_client(options.home)).items():
        low, high, mark = *query.interval, query.mark
        told = ["" if at is None else format_instant(at) for at in (low, high, mark)]
        error = query.error
        rows.append([name, query.state, str(query.rows), *told, "" if error is None else error.message])
    show(["name", "state", "rows", "from", "to", "complete until", "error"], rows)
    return 0


def _stop(options: argparse.Namespace) -> int:
    _client(options.home).requests.add("stop")
    return 0


def _queries(folder: HubFolder) -> dict[str, HubQuery]:
    from hydrophone.spark.hub.subscription import known_queries

    return {q.name: q for q in known_queries(Elsewhere(), folder)}


def _instant(text: str) -> int:
    try:
        return int(text) if text.lstrip("-").isdigit() else instant(text)
    except (ValueError, TypeError) as error:
        raise ParameterError(f"{text!r} is no instant: {error}", hint="nanoseconds, or 2026-01-31T12:00:00") from None
