"""Output that a query would read as its own input, or that would take the place of it."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import combinations
from pathlib import Path

from hydrophone.connect.files import is_hidden, is_pattern, root_of
from hydrophone.errors import ParameterError
from hydrophone.plan.data import Place

Names = tuple[str, ...]


def check_output_apart(
    sources: Iterable[Place], output: str, *, what: str, writes: str | None = None, watched: bool = False
) -> None:
    """Refuse output that one of the sources would read, or that would take the place of its files.

    Links and ``..`` are followed. Names that begin with ``_`` or ``.`` are no data, and what lies below them is not read.

    Parameters
    ----------
    sources : what the query reads of this machine's disk
    writes : the suffix of the files that are written; None: they may have any
    watched : whether the source is a folder that Spark watches, which follows links to other folders
    """
    for source in sources:
        if _replaces(source, output):
            raise ParameterError(
                f"{what}: {output} would take the place of {source.path}, which the query reads",
                hint="choose a path of its own for the output",
            )
        if any(_would_read(source, place, output, writes) for place in _watched_folders(source, watched)):
            raise ParameterError(
                f"{what}: {output} lies in {source.path}, which the query reads: it would read its own output",
                hint="choose a path beside it",
            )


def check_outputs_separate(places: Mapping[str, str], *, what: str) -> None:
    """Refuse two outputs of which readers of one would see the other."""
    for (name, path), (other, folder) in combinations(places.items(), 2):
        for inner, outer in ((path, folder), (folder, path)):
            names = path_below(inner, outer)
            if names is not None and not is_hidden(names):
                raise ParameterError(
                    f"{what}: the {name} {path} and the {other} {folder} overlap", hint="give each a folder of its own"
                )


def path_below(path: str, folder: str) -> Names | None:
    """The names that lead from a folder to a path, none where both are the same; None where the path lies elsewhere.

    Examples
    --------
    >>> path_below("lake/../lake/day=1/a", "lake"), path_below("lake", "lake"), path_below("lakes", "lake")
    (('day=1', 'a'), (), None)
    """
    here, names = Path(os.path.realpath(path)), list[str]()
    for place in (here, *here.parents):
        if _same_path(place, folder):
            return tuple(reversed(names))
        names.append(place.name)
    return None


def _same_path(one: Path, other: str) -> bool:
    """Whether two paths mean the same: on disk, or where there is nothing yet, by name."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return str(one) == os.path.realpath(other)


def _replaces(source: Place, output: str) -> bool:
    if path_below(root_of(source.path) if is_pattern(source.path) else source.path, output) is not None:
        return True
    # Its files one by one, as links may lead to them. By name: a lake has many of them.
    there = os.path.realpath(output)
    folders = {f: os.path.realpath(f) for f in {os.path.dirname(f) for f in source.files}}
    for file in source.files:
        folder, name = os.path.split(file)
        real = os.path.realpath(file) if os.path.islink(file) else os.path.join(folders[folder], name)
        if real == there or real.startswith(there.rstrip(os.sep) + os.sep):
            return True
    return False


def _watched_folders(source: Place, watched: bool) -> Iterator[str]:
    """Where a source looks: its own path, and the folders that links below it point at."""
    yield source.path
    if is_pattern(source.path):
        yield from (m for m in glob.glob(source.path, recursive=True) if os.path.isdir(m) and os.path.islink(m))
    elif watched and os.path.isdir(source.path):
        seen = {os.path.realpath(source.path)}
        for folder, names, _ in os.walk(source.path, followlinks=True):
            found = {n: os.path.realpath(os.path.join(folder, n)) for n in names if not is_hidden([n])}
            names[:] = [n for n, real in found.items() if real not in seen]  # a link may lead back
            seen.update(found.values())
            yield from (path for n in names if os.path.islink(path := os.path.join(folder, n)))


def _would_read(source: Place, place: str, output: str, writes: str | None) -> bool:
    """Whether a source would take files that are written to a path."""
    if is_pattern(place):
        root = root_of(place)
        names = path_below(output, root)
        wanted = Path(os.path.relpath(place, root)).parts
        return names is not None and not is_hidden(names) and _pattern_matches(wanted, names)
    if not os.path.isdir(place):
        return False  # one file, and output that takes its place was told before
    names = path_below(output, place)
    return names is not None and not is_hidden(names) and (writes is None or writes.endswith(source.suffixes))


def _pattern_matches(pattern: Sequence[str], names: Sequence[str]) -> bool:
    """Whether a pattern matches a path, a folder above it, or may match something below it."""
    if not pattern or not names:
        return True
    if pattern[0] == "**":
        return _pattern_matches(pattern[1:], names) or _pattern_matches(pattern, names[1:])
    return fnmatchcase(names[0], pattern[0]) and _pattern_matches(pattern[1:], names[1:])
