"""Stages: the parts of a plan between exchanges, cut where the key changes."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from hydrophone.compiler.ports import with_order
from hydrophone.plan.node import Node
from hydrophone.plan.source import Layout, Leaf, Port, Source
from hydrophone.plan.types import DataType, StreamType


@dataclass(frozen=True)
class Input:
    """What feeds a port of a stage: a source or an earlier stage, through row operators that run before the exchange.

    Attributes
    ----------
    source : the source, or None where `stage` feeds the port
    stage : number of the earlier stage
    prefix : the row operators, over port 0 (which is that port itself where there are none)
    """

    source: Source | None
    stage: int | None
    prefix: Node


@dataclass(frozen=True)
class Stage:
    """Operators of one scope, which run together in one task for a share of the keys."""

    root: Node
    inputs: tuple[Input, ...]


def cut_stages(root: Node) -> list[Stage]:
    """Cut a plan where the key changes after an operator that is not row by row; the last stage gives the answer."""
    made: list[Stage] = []
    numbers: dict[Node, int] = {}
    stack = [root]
    while stack:
        chains = _chains(stack[-1])
        below = [chain[0] for chain in chains.values() if not isinstance(chain[0], Source)]
        if lacking := [end for end in below if end not in numbers]:
            stack += reversed(lacking)
        elif (end := stack.pop()) not in numbers:
            numbers[end] = len(made)
            made.append(_stage(end, chains, numbers))
    return made


def _stage(root: Node, chains: dict[Node, list[Node]], numbers: dict[Node, int]) -> Stage:
    """The stage that ends at `root` and has a port for every chain; the stages that feed it have numbers already."""
    inputs: list[Input] = []
    done: dict[Node, Node] = {}
    for top, chain in chains.items():
        inputs.append(_input(chain, numbers))
        done[top] = _port(chain, len(inputs) - 1, inputs[-1])
    stack = [root]
    while stack:
        node = stack[-1]
        lacking = [] if node in done else [i for i in node.inputs if i not in done]
        if lacking:
            stack += reversed(lacking)
        elif stack.pop() not in done:
            done[node] = with_order(node.with_inputs([done[i] for i in node.inputs]))
    return Stage(done[root], tuple(inputs))


def _input(chain: list[Node], numbers: dict[Node, int]) -> Input:
    """What feeds a port: the bottom of a chain of row operators, through the rest of it."""
    bottom = chain[0]
    source = bottom if isinstance(bottom, Source) else None
    prefix: Node = source.port(0) if source else Port(number=0, layout=layout_of(bottom.type), source=bottom.digest)
    for node in chain[1:]:
        prefix = node.with_inputs([prefix])
    return Input(source, None if source else numbers[bottom], prefix)


def _port(chain: list[Node], number: int, feed: Input) -> Port:
    """The port in place of a chain."""
    if len(chain) == 1 and feed.source is not None:
        return feed.source.port(number)
    policy = chain[0].progress if isinstance(chain[0], Leaf) else None
    top = chain[-1]
    return Port(number=number, layout=layout_of(top.type), progress=policy, joint=top.paired, source=feed.prefix.digest)


def _chains(root: Node) -> dict[Node, list[Node]]:
    """Where the stage of `root` begins: the nodes that become its ports, each with the row operators down to what feeds it, bottom first.

    That is a source, or the end of another stage below a change of key.
    """
    found: dict[Node, list[Node]] = {}
    seen: set[Node] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        chain = _rowwise_chain(node)
        if isinstance(chain[0], Source) or any(n.changes_key for n in chain[1:]):
            found[node] = chain
        else:
            stack += reversed(chain[0].inputs)
    return found


def _rowwise_chain(node: Node) -> list[Node]:
    """A node and the row operators below it, down to the first other one, bottom first."""
    chain = [node]
    while chain[-1].rowwise and len(chain[-1].inputs) == 1:
        chain.append(chain[-1].inputs[0])
    return chain[::-1]


def layout_of(kind: DataType) -> Layout:
    """How the rows of a stream are laid out when they travel between stages."""
    assert isinstance(kind, StreamType)
    ends = [pa.field(kind.end, kind.stamp)] if kind.end else []
    schema = pa.schema([*kind.key, pa.field(kind.time, kind.stamp), *ends, *kind.columns])
    return Layout(schema, tuple(kind.key.names), kind.time, kind.end)
