"""Passes about progress: how often sources announce marks, whether per key, and whether results are flushed slowly."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from hydrophone.model.progress import AS_WINDOWS
from hydrophone.plan.node import Node, readers, rebuild
from hydrophone.plan.source import Source


def marks_of_windows(root: Node) -> Node:
    """Set the distance of marks for sources with ``every="windows"``, from the windows of the whole plan.

    If anything but windows of time reads a source, its marks follow its rows.
    """
    steps = _mark_steps(root)

    def fine(node: Node, new: Node) -> Node:
        if not isinstance(new, Source) or new.progress is None or new.progress.every != AS_WINDOWS:
            return new
        found = steps[node]
        every = None if None in found else gcd(*(s for s in found if s is not None))
        return replace(new, progress=replace(new.progress, every=every))

    return rebuild(root, fine)


def _mark_steps(root: Node) -> dict[Node, set[int | None]]:
    """For every node the distances of marks that its readers need; None: any mark."""
    above, steps = readers(root), dict[Node, set[int | None]]()
    for node in reversed(root.topological()):
        found = {s for n in above.get(node, ()) for s in (steps[n] if n.rowwise or n.unites else {n.mark_step})}
        steps[node] = found if node in above else {None}
    return steps


def marks_of_all_keys(root: Node) -> Node:
    """Drop progress per key from sources where the key changes before an operator can use it.

    Such rows are sharded by another key, so that no shard sees all rows of a key of the source.
    """
    changed = {_below_row_operators(node) for node in root.topological() if node.changes_key}

    def whole(node: Node, new: Node) -> Node:
        if not isinstance(new, Source) or node not in changed or new.progress is None or new.progress.per_key is None:
            return new
        return replace(new, progress=replace(new.progress, per_key=None))

    return rebuild(root, whole)


def _below_row_operators(node: Node) -> Node:
    """The first node below that is no row operator."""
    while node.rowwise:
        node = node.inputs[0]
    return node


def without_flush(root: Node) -> Node:
    """Remove `flush` for tasks and micro-batches, which give all results at their end anyway.

    With it, a repeated micro-batch could give other rows, because tasks merge events before they are counted.
    """
    return rebuild(root, lambda _, new: new.without_flush())
