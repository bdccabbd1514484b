"""Files on this machine: which ones a path means, whether they are still the same, and output that appears whole or not at all."""

from __future__ import annotations

import errno
import glob
import os
import re
import shutil
import stat
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hydrophone.errors import DataError, ParameterError

_HIDDEN = ("_", ".")
_PARTS = re.compile(r"part-.*|_SUCCESS|_metadata|_common_metadata|\..*\.crc")


@dataclass(frozen=True)
class File:
    """One file as it was when the plan was made; a file that changed since is an error."""

    path: str
    size: int
    modified: int

    @classmethod
    def of(cls, path: str) -> File:
        """Look at a file now."""
        found = os.stat(path)
        return cls(path, found.st_size, found.st_mtime_ns)

    def check(self) -> None:
        """Refuse a file that is not the one that was planned with."""
        try:
            now = File.of(self.path)
        except FileNotFoundError:
            raise DataError(
                f"the file {self.path} is gone since the query was planned",
                hint="run the query again: it lists the files anew",
            ) from None
        if now != self:
            raise DataError(
                f"the file {self.path} has changed since the query was planned",
                hint="run the query again: it lists the files anew",
            )


# --- which files ------------------------------------------------------------------------------------------------------


def list_files(
    path: str, *, what: str = "read.parquet", suffixes: Sequence[str] = (".parquet",), none_yet: bool = False
) -> list[str]:
    """The data files that a path means, in the order of their names.

    A file is itself, whatever its name. A folder is all files under it with one of the suffixes, nested folders
    included. A pattern (``*``, ``?``, ``[...]``, and ``**`` for any folders) is everything that it matches. Names that
    start with ``_`` or ``.`` are passed over below a folder or a pattern: writers use them for what is not yet data. With
    `none_yet` a folder or pattern may have no files.

    Examples
    --------
    >>> list_files("nowhere/*.parquet")
    Traceback (most recent call last):
    hydrophone.errors.ParameterError: read.parquet: no file or folder matches 'nowhere/*.parquet'
    """
    if os.path.isfile(path):
        return [path]
    if os.path.isdir(path):
        found = _files_under(path, suffixes)
    elif is_pattern(path):
        matches = sorted(m for m in glob.glob(path, recursive=True) if not _is_hidden(m, root_of(path)))
        if not matches and not none_yet:
            raise ParameterError(f"{what}: no file or folder matches {path!r}")
        # With ** a folder matches as well as what is in it; each file counts once.
        found = list(
            dict.fromkeys(f for m in matches for f in ([m] if os.path.isfile(m) else _files_under(m, suffixes)))
        )
    else:
        raise ParameterError(f"{what}: there is no file or folder {path!r}")
    if not found and not none_yet:
        raise ParameterError(
            f"{what}: no {' or '.join('*' + s for s in suffixes)} files under {path!r}",
            hint='where files are still to come, say what they will hold: schema={"ts": "timestamp[us]", "value": "float64"}',
        )
    return found


def is_pattern(path: str) -> bool:
    """Whether a path is a pattern; a file or folder that exists under the very name is not.

    Examples
    --------
    >>> is_pattern("2024-*/readings.csv"), is_pattern("readings.csv")
    (True, False)
    """
    return glob.has_magic(path) and not os.path.exists(path)


def root_of(path: str) -> str:
    """The folder under which a path's files lie, for a pattern the part before its first wild card.

    Examples
    --------
    >>> root_of("lake/day=*/part-?.parquet"), root_of("*.parquet")
    ('lake', '.')
    """
    if os.path.isdir(path):
        return path
    folder = os.path.dirname(path)
    while is_pattern(folder):
        folder = os.path.dirname(folder)
    return folder or "."


def _files_under(folder: str, suffixes: Sequence[str]) -> list[str]:
    paths = sorted(p for p in Path(folder).rglob("*") if p.name.endswith(tuple(suffixes)) and p.is_file())
    return [str(p) for p in paths if not _is_hidden(str(p), folder)]


def _is_hidden(path: str, root: str) -> bool:
    return is_hidden(Path(os.path.relpath(path, root)).parts)


def is_hidden(names: Iterable[str]) -> bool:
    """Whether a path of these names is passed over.

    Examples
    --------
    >>> is_hidden(["..", "lake", "a.parquet"]), is_hidden(["_temporary", "a.parquet"])
    (False, True)
    """
    return any(name.startswith(_HIDDEN) for name in names if name not in (".", ".."))


# --- output -----------------------------------------------------------------------------------------------------------


def check_output(path: str, *, what: str, overwrite: bool = False) -> None:
    """Refuse an output path before any work is done for it.

    It must not exist unless `overwrite` says so, and its folder must. A folder is replaced only if it holds nothing but
    what a writer of parts left there. A link stands for what it points at.
    """
    target = output_target(path, what=what)
    if not target.absolute().parent.is_dir():
        raise ParameterError(f"{what}: there is no folder {str(target.parent)!r} to write into", hint="make it first")
    if not overwrite and os.path.lexists(path):
        raise ParameterError(f"{what}: {path} exists already", hint="choose another path, or overwrite=True")
    check_replaceable(target, path, what=what)
    _check_writable(target.absolute(), path)


def output_target(path: str, *, what: str) -> Path:
    """The file or folder that an output path means: a link is followed; a device, pipe or socket is refused.

    Examples
    --------
    >>> output_target("/dev/null", what="to_csv")
    Traceback (most recent call last):
    hydrophone.errors.ParameterError: to_csv: /dev/null is a device: results go to a file or a folder
      Hint: choose another path; to_arrow() gives the answer to write it yourself
    """
    target = Path(path)
    try:
        mode = os.stat(target).st_mode
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ParameterError(
                f"{what}: {path} is a link that leads to itself", hint="remove it, or choose another path"
            ) from None
        mode = 0  # there is nothing yet, also at the end of a link
    for is_kind, kind in _NO_FILES:
        if is_kind(mode):
            raise ParameterError(
                f"{what}: {path} is a {kind}: results go to a file or a folder",
                hint="choose another path; to_arrow() gives the answer to write it yourself",
            )
    return Path(os.path.realpath(target)) if target.is_symlink() else target


_NO_FILES = ((stat.S_ISCHR, "device"), (stat.S_ISBLK, "device"), (stat.S_ISFIFO, "pipe"), (stat.S_ISSOCK, "socket"))


def check_replaceable(target: Path, path: str, *, what: str) -> None:
    """Refuse to replace a folder that holds other things than results."""
    foreign = _not_a_result(target) if target.is_dir() else None
    if foreign is not None:
        raise ParameterError(
            f"{what}: {path} is a folder that holds other things than a result, for example {foreign.name}",
            hint="remove it yourself, or choose another path",
        )


def _check_writable(target: Path, path: str) -> None:
    """Try it: permissions alone do not tell of a disk that is read-only, or of folders in which the system lets nobody make files."""
    trial = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.trial")
    try:
        trial.mkdir()
        trial.rmdir()
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None


def _not_a_result(folder: Path) -> Path | None:
    """Something under a folder that no writer of parts left there; ``name=value`` folders are theirs."""
    for found in sorted(folder.iterdir()):  # not all at once: it may be somebody's home
        is_folder = found.is_dir() and not found.is_symlink()
        if not (_PARTS.fullmatch(found.name) or (is_folder and "=" in found.name)):
            return found
        deeper = _not_a_result(found) if is_folder else None
        if deeper is not None:
            return deeper
    return None


@contextmanager
def write_then_rename(path: str, *, what: str, overwrite: bool = False) -> Iterator[Path]:
    """Give a hidden name beside `path` to write a file or a folder to; it gets its real name when the block is done.

    Whatever ends the block early, an interrupt too, removes what was written. So under `path` there is all or nothing.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with write_then_rename(str(folder / "a.txt"), what="example") as draft:
    ...     _ = draft.write_text("all of it")
    ...     (folder / "a.txt").exists()
    False
    >>> [p.name for p in folder.iterdir()]
    ['a.txt']
    """
    check_output(path, what=what, overwrite=overwrite)
    target = output_target(path, what=what).absolute()
    draft = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.partial")
    try:
        yield draft
        flush_to_disk(draft)
        # Another process may have written there while the query ran.
        check_output(path, what=what, overwrite=overwrite)
        _rename(draft, target)
    except BaseException:
        _remove(draft)
        raise


def flush_to_disk(draft: Path) -> None:
    """Wait until the contents are on the disk: a name that outlives them after a power cut would look whole."""
    for path in [draft, *(draft.rglob("*") if draft.is_dir() else ())]:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _rename(draft: Path, target: Path) -> None:
    if not (target.is_dir() or (draft.is_dir() and os.path.lexists(target))):
        os.replace(draft, target)
        return
    # A folder can't be replaced in one step: for an instant there is neither, and never half of one.
    old = draft.with_suffix(".old")
    os.rename(target, old)
    try:
        os.rename(draft, target)
    except BaseException:
        os.rename(old, target)
        raise
    _remove(old)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
