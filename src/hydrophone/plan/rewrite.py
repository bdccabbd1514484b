"""Rewrites: row filters move towards the source where the answer stays equal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import gcd

import narwhals as nw

from hydrophone import expr
from hydrophone.ops.keys import KeyBy
from hydrophone.ops.rows import Select, Where, WithColumns
from hydrophone.ops.sets import Union
from hydrophone.plan.node import Node
from hydrophone.plan.source import Source
from hydrophone.progress import AS_WINDOWS

Rule = Callable[[Node], Node | None]


def rewrite(root: Node) -> Node:
    """Apply all rules, children first, until none fits."""
    done: dict[Node, Node] = {}
    for node in root.topological():
        new = node.with_inputs([done[i] for i in node.inputs])
        while (better := _first(new)) is not None:
            new = better
        done[node] = new
    return whole_marks(done[root])


def as_windows(root: Node) -> Node:
    """Sources whose marks are to be as fine as windows need learn how fine that is; the whole plan must be there to see it.

    Where anything but windows of time reads a source, its marks stay as rows give them.
    """
    readers: dict[Node, list[Node]] = {}
    for node in root.topological():
        for child in node.inputs:
            readers.setdefault(child, []).append(node)

    def steps(node: Node) -> set[int | None]:
        """The steps of what waits for the marks of a node."""
        above = readers.get(node, [])
        if not above:
            return {None}
        return {s for n in above for s in (steps(n) if n.rowwise or isinstance(n, Union) else {n.step})}

    done: dict[Node, Node] = {}
    for node in root.topological():
        new = node.with_inputs([done[i] for i in node.inputs])
        if isinstance(new, Source) and new.progress is not None and new.progress.every == AS_WINDOWS:
            found = steps(node)
            fine = None if None in found else gcd(*(s for s in found if s is not None))
            new = replace(new, progress=replace(new.progress, every=fine))
        done[node] = new
    return done[root]


def whole_marks(root: Node) -> Node:
    """Sources promise nothing per key where the key changes before an operator could use it.

    Their rows travel by another key then, and nobody sees all rows of one of theirs.
    """
    changed: set[Node] = set()
    for node in root.topological():
        if isinstance(node, KeyBy):
            below: Node = node
            while below.rowwise:
                below = below.inputs[0]
            changed.add(below)
    done: dict[Node, Node] = {}
    for node in root.topological():
        new = node.with_inputs([done[i] for i in node.inputs])
        if (
            isinstance(new, Source)
            and node in changed
            and new.progress is not None
            and new.progress.per_key is not None
        ):
            new = replace(new, progress=replace(new.progress, per_key=None))
        done[node] = new
    return done[root]


def _first(node: Node) -> Node | None:
    for rule in RULES:
        better = rule(node)
        if better is not None:
            return better
    return None


def where_below_columns(node: Node) -> Node | None:
    """Filter first, then compute columns that the filter does not look at."""
    if isinstance(node, Where) and isinstance(below := node.inputs[0], WithColumns):
        made = {name for name, _ in below.columns}
        if not made & expr.names(node.condition):
            return below.with_inputs([rewrite(node.with_inputs(below.inputs))])
    return None


def where_below_select(node: Node) -> Node | None:
    """Filter first, then drop columns."""
    if isinstance(node, Where) and isinstance(below := node.inputs[0], Select):
        return below.with_inputs([rewrite(node.with_inputs(below.inputs))])
    return None


RULES: tuple[Rule, ...] = (where_below_columns, where_below_select)


def filters_on_sources(root: Node) -> dict[Source, tuple[nw.Expr, ...]]:
    """For every source the conditions that all of its rows must meet to matter at all.

    A host may read fewer rows by them. They stay in the plan: a reader may keep more rows than pass, never fewer.
    """
    consumers: dict[Node, list[Node]] = {}
    for node in root.topological():
        for child in node.inputs:
            consumers.setdefault(child, []).append(node)
    found: dict[Source, tuple[nw.Expr, ...]] = {}
    for leaf in root.topological():
        if not isinstance(leaf, Source):
            continue
        at: Node = leaf
        conditions: list[nw.Expr] = []
        while len(consumers.get(at, [])) == 1 and isinstance(above := consumers[at][0], Where):
            conditions.append(above.condition)
            at = above
        found[leaf] = tuple(conditions)
    return found
