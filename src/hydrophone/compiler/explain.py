"""`explain`: for each node its parameters, output type, reach, keys and host."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from hydrophone.compiler.compile import PASSES, Host, Stage, compile_plan, lower, stages
from hydrophone.compiler.reach import reach_of_sources
from hydrophone.errors import ParameterError
from hydrophone.model.state import KeptRows
from hydrophone.plan.node import Node, topological
from hydrophone.plan.source import Leaf, Port, Source

STAGES = ("logical", *(step.name for step in PASSES), "lowered", "stages")
"""The plan as written, after each pass, over ports as this process runs it, and cut at exchanges as a stream runs it."""


def explain(root: Node, stage: str = "logical") -> str:
    """A plan as text, at one of its stages."""
    if stage not in STAGES:
        raise ParameterError(f"explain: no stage {stage!r}; there are: {', '.join(STAGES)}, spark")
    if stage == "logical":
        return "\n".join([*tree([root]), "", *_summary(root)])
    if stage == "lowered":
        return "\n".join(tree(lower([root], Host.LOCAL).roots, _state))
    if stage == "stages":
        cut = stages(root, Host.STREAM)
        return "\n".join(line for number, s in enumerate(cut) for line in _stage(number, s))
    # A plan by shards goes through all passes.
    return "\n".join(tree([compile_plan(root, Host.SHARDS, stage)]))


def tree(roots: Sequence[Node], more: Callable[[Node], str] = lambda _: "") -> list[str]:
    """One line per node, inputs indented below; a node that is shared is written once. `more` is said of each beside its type."""
    readers = Counter(child for node in topological(roots) for child in dict.fromkeys(node.inputs))
    lines: list[str] = []
    seen: set[Node] = set()
    stack = [(root, 0) for root in reversed(roots)]
    while stack:
        node, depth = stack.pop()
        mark = f" #{node.digest[:6]}" if readers[node] > 1 else ""
        if node in seen:
            lines.append(f"{'  ' * depth}(shared{mark})")
            continue
        seen.add(node)
        reach = "".join(f", reach {r}" for r in dict.fromkeys(node.reaches) if r.before != 0 or r.after != 0)
        lines.append(f"{'  ' * depth}{title(node)} -> {node.type.describe()}{reach}{more(node)}{mark}")
        stack += [(child, depth + 1) for child in reversed(node.inputs)]
    return lines


def _state(node: Node) -> str:
    """What the kernel keeps of every key between batches."""
    kernel = node.kernel(*(i.type for i in node.inputs)) if node.inputs else None
    if kernel is None or not kernel.states():
        return ""
    held = any(isinstance(s, KeptRows) for s in kernel.states().values())
    size = f"{kernel.bytes_per_key:,} B a key" if kernel.bytes_per_key else ""
    return f", state {' and '.join(filter(None, (size, 'what waits for progress' if held else '')))}"


def title(node: Node) -> str:
    """Operator and parameters."""
    if isinstance(node, Source):
        return f"source {node.title}"
    if isinstance(node, Port):
        return f"port {node.number}"
    return f"{node.name()}({node.describe()})" if not isinstance(node, Leaf) else node.name()


def _summary(root: Node) -> list[str]:
    reaches = reach_of_sources(root)
    lines = [f"needs of {title(source)}: {reach}" for source, reach in reaches.items()]
    count = len(stages(root))
    lines.append(
        "slices: possible, reach is bounded"
        if all(r.bounded for r in reaches.values())
        else "slices: not possible, see reach"
    )
    lines.append(f"shards: {count} exchange{'s' if count > 1 else ''}")
    return lines


def _stage(number: int, stage: Stage) -> list[str]:
    lines = [f"stage {number}, keys: {', '.join(stage.root.topological()[0].type.key.names) or 'none'}"]
    for port, source in enumerate(stage.inputs):
        feed = f"stage {source.stage}" if source.source is None else title(source.source)
        lines.append(f"  port {port} <- {feed}, before the exchange:")
        lines += [f"    {line}" for line in tree([source.prefix])]
    return lines + [f"  {line}" for line in tree([stage.root])]
