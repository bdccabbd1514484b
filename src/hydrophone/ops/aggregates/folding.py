"""Parts of aggregates merged over stretches of rows: many stretches at once, however they overlap."""

from __future__ import annotations

import numpy as np

from hydrophone.model.batch import Ints, Mask
from hydrophone.model.sorted_rows import concat_ranges
from hydrophone.ops.aggregates.summaries import Aggregate, Partials, Values


def fold(aggregate: Aggregate, partials: Partials, first: Ints, stop: Ints) -> Partials:
    """The merged parts of the rows ``first[i] .. stop[i] - 1`` (at least one) for every i; stretches may overlap.

    Rows merge by doubling: a stretch of n rows costs log2(n) steps, and what stretches share is merged once.

    Examples
    --------
    >>> from hydrophone.ops.aggregates.summaries import Count
    >>> fold(Count(), [np.array([1, 1, 1, 1])], np.array([0, 1]), np.array([3, 4]))
    [array([3, 3])]
    """
    with np.errstate(all="ignore"):
        if aggregate.merge and (first[1:] == stop[:-1]).all() and stop[-1:] == [len(partials[0])]:
            return [m.reduceat(p, first) for m, p in zip(aggregate.merge, partials, strict=True)]
        lengths, at, step = stop - first, first.copy(), 1
        done, out = np.zeros(len(first), np.bool_), [p[first] for p in partials]
        while True:
            takes = (lengths & step) > 0
            rows, more = np.flatnonzero(takes & done), np.flatnonzero(takes & ~done)
            if len(rows):
                both = aggregate.merged([o[rows] for o in out], [p[at[rows]] for p in partials])
                out = [put_rows(o, rows, m) for o, m in zip(out, both, strict=True)]
            if len(more):
                out = [put_rows(o, more, p[at[more]]) for o, p in zip(out, partials, strict=True)]
            done |= takes
            at[takes] += step
            step *= 2
            if not (lengths >= step).any():
                return out
            partials = aggregate.merged([p[: -step // 2] for p in partials], [p[step // 2 :] for p in partials])


def fold_short(aggregate: Aggregate, partials: Partials, first: Ints, stop: Ints) -> Partials:
    """As `fold`, where stretches are short or few: each costs a merge for every row of it, or is folded if that is less work.

    Examples
    --------
    >>> from hydrophone.ops.aggregates.summaries import Count
    >>> fold_short(Count(), [np.array([1, 1, 1, 1])], np.array([0, 1]), np.array([3, 4]))
    [array([3, 3])]
    """
    lengths = stop - first
    if len(lengths) and lengths.sum() > (len(partials[0]) + len(lengths)) * int(lengths.max()).bit_length():
        return fold(aggregate, partials, first, stop)
    partials = [p[concat_ranges(first, lengths)] for p in partials]
    with np.errstate(all="ignore"):
        while (lengths > 1).any():
            pairs, begin = lengths // 2, np.cumsum(lengths) - lengths
            left = np.repeat(begin, pairs) + 2 * concat_ranges(np.zeros_like(pairs), pairs)
            odd = np.flatnonzero(lengths % 2)
            alone = (begin + lengths - 1)[odd]
            lengths = lengths - pairs
            begin = np.cumsum(lengths) - lengths
            both = aggregate.merged([p[left] for p in partials], [p[left + 1] for p in partials])
            where, rest = np.repeat(begin, pairs) + concat_ranges(np.zeros_like(pairs), pairs), (begin + pairs)[odd]
            size = int(lengths.sum())
            partials = [
                put_rows(put_rows(np.empty(size, p.dtype), rest, p[alone]), where, m)
                for p, m in zip(partials, both, strict=True)
            ]
    return partials


def fold_layers(
    aggregate: Aggregate, partials: Partials, first: Ints, stop: Ints, places: int
) -> tuple[Partials, Mask]:
    """The merged parts of all rows that cover each of some places, where row i covers ``first[i] .. stop[i] - 1``.

    A row is kept at the few nodes of a binary tree over the places that make up its stretch, and what a node has goes down to
    its leaves: n rows over m places cost about (n + m) log2(m) merges, however many rows cover a place, and nothing is taken
    away again, so that no digits are lost. Also gives which places are covered at all.

    Examples
    --------
    >>> from hydrophone.ops.aggregates.summaries import Count
    >>> fold_layers(Count(), [np.array([1, 1])], np.array([0, 1]), np.array([2, 4]), 5)
    ([array([1, 2, 1, 1, 0])], array([ True,  True,  True,  True, False]))
    """
    size = 1 << max(places - 1, 0).bit_length()
    node, row = _tree_nodes(first, stop, size)
    order = np.argsort(node, kind="stable")
    node, row = node[order], row[order]
    begin = np.flatnonzero(np.concatenate([[True], node[1:] != node[:-1]]))[: len(node)]
    own = fold(aggregate, [p[row] for p in partials], begin, np.append(begin[1:], len(node))) if len(node) else partials
    there = np.zeros(2 * size, np.bool_)
    there[node[begin]] = True
    values = [
        put_rows(np.zeros(2 * size, p.dtype), node[begin], o[: len(begin)]) for p, o in zip(partials, own, strict=True)
    ]
    level = 1
    with np.errstate(all="ignore"):
        while level < size:
            child = np.arange(2 * level, 4 * level)
            child = child[there[child >> 1]]
            alone, both = child[~there[child]], child[there[child]]
            merged = aggregate.merged([v[both >> 1] for v in values], [v[both] for v in values])
            values = [put_rows(put_rows(v, both, m), alone, v[alone >> 1]) for v, m in zip(values, merged, strict=True)]
            there[child] = True
            level *= 2
    return [v[size : size + places] for v in values], there[size : size + places]


def _tree_nodes(first: Ints, stop: Ints, size: int) -> tuple[Ints, Ints]:
    """The nodes (root 1, children of n are 2n and 2n + 1, leaves from `size` on) that make up each stretch, and whose they are."""
    low, high, row = first + size, stop + size, np.arange(len(first))
    nodes, rows = [low[:0]], [row[:0]]
    while True:
        go = low < high
        low, high, row = low[go], high[go], row[go]
        if not len(row):
            return np.concatenate(nodes), np.concatenate(rows)
        left, right = (low & 1) > 0, (high & 1) > 0
        nodes += [low[left], high[right] - 1]
        rows += [row[left], row[right]]
        low, high = (low + left) >> 1, (high - right) >> 1


def put_rows(into: Values, rows: Ints, values: Values) -> Values:
    """An array with other values at some rows; it is changed, not copied."""
    into[rows] = values
    return into
