"""What cannot run as a stream: `start` refuses it, and `explain` says so before."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hydrophone.engine.watch import waiting
from hydrophone.errors import HydrophoneError, ParameterError, PlanError
from hydrophone.plan.node import Node
from hydrophone.plan.source import Source, sources
from hydrophone.spark.arrow_types import check_grid


def refusals(root: Node) -> list[str]:
    """Every reason for which `start` would refuse a query, whatever it writes to, with the way out; none where it would run."""
    checks: list[Callable[[], None]] = [partial(check_source, source) for source in sources(root)]
    checks += [partial(node.check_stream, waits) for node, waits in waiting(root).items()]
    checks.append(partial(check_grid, root.type))
    found = []
    for check in checks:
        try:
            check()
        except HydrophoneError as error:
            hint = f" ({error.hint})" if error.hint else ""
            found.append(error.message.removeprefix("start: ").removeprefix("to_spark: ") + hint)
    return found


def check_source(source: Source) -> None:
    """Refuse a source that is no stream, or promises nothing."""
    source.data.check_stream(source.title, source.where)
    policy = source.progress
    if policy is None:
        raise PlanError(
            f"start: {source.title} promises no progress, so no result would ever be final",
            hint='say how late rows may come: progress=hp.delayed("5s")',
            where=source.where,
        )
    for column in filter(None, [policy.by, policy.column]):
        if column not in source.layout.schema.names:
            names = ", ".join(source.layout.schema.names)
            raise ParameterError(f"progress: no column {column!r}; the data has: {names}", where=source.where)
