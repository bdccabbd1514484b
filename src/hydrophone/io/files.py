"""Files on this machine: which ones a path means, whether they are still the same, and output that appears whole or not at all."""

from __future__ import annotations

import glob
import os
import re
import shutil
import uuid
from collections.abc import Iterator, Sequence
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


def list_files(path: str, *, what: str = "read.parquet", suffixes: Sequence[str] = (".parquet",)) -> list[str]:
    """The data files that a path means, in the order of their names.

    A file is itself, whatever its name. A folder is all files under it with one of the suffixes, nested folders
    included. A pattern (``*``, ``?``, ``[...]``, and ``**`` for any folders) is everything that it matches. Names that
    start with ``_`` or ``.`` are passed over below a folder or a pattern: writers use them for what is not yet data.

    Examples
    --------
    >>> list_files("nowhere/*.parquet")
    Traceback (most recent call last):
    hydrophone.errors.ParameterError: read.parquet: no file or folder matches 'nowhere/*.parquet'
    """
    if os.path.isfile(path):
        return [path]
    if os.path.isdir(path):
        found = _under(path, suffixes)
    elif is_pattern(path):
        matches = sorted(m for m in glob.glob(path, recursive=True) if not _is_hidden(m, root_of(path)))
        if not matches:
            raise ParameterError(f"{what}: no file or folder matches {path!r}")
        # With ** a folder matches as well as what is in it; each file counts once.
        found = list(dict.fromkeys(f for m in matches for f in ([m] if os.path.isfile(m) else _under(m, suffixes))))
    else:
        raise ParameterError(f"{what}: there is no file or folder {path!r}")
    if not found:
        raise ParameterError(f"{what}: no {' or '.join('*' + s for s in suffixes)} files under {path!r}")
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


def _under(folder: str, suffixes: Sequence[str]) -> list[str]:
    paths = sorted(p for p in Path(folder).rglob("*") if p.name.endswith(tuple(suffixes)) and p.is_file())
    return [str(p) for p in paths if not _is_hidden(str(p), folder)]


def _is_hidden(path: str, root: str) -> bool:
    return any(part.startswith(_HIDDEN) for part in Path(os.path.relpath(path, root)).parts if part not in (".", ".."))


# --- output -----------------------------------------------------------------------------------------------------------


def check_output(path: str, *, what: str, overwrite: bool = False) -> None:
    """Refuse an output path before any work is done for it.

    It must not exist unless `overwrite` says so, and its folder must. A folder is replaced only if it holds nothing but
    what a writer of parts left there.
    """
    target = Path(path)
    if not target.absolute().parent.is_dir():
        raise ParameterError(f"{what}: there is no folder {str(target.parent)!r} to write into", hint="make it first")
    if not os.path.lexists(target):
        _check_writable(target.absolute(), path)
        return
    if not overwrite:
        raise ParameterError(f"{what}: {path} exists already", hint="choose another path, or overwrite=True")
    foreign = _foreign(target) if target.is_dir() and not target.is_symlink() else None
    if foreign is not None:
        raise ParameterError(
            f"{what}: {path} is a folder that holds other things than a result, for example {foreign.name}",
            hint="remove it yourself, or choose another path",
        )
    _check_writable(target.absolute(), path)


def _check_writable(target: Path, path: str) -> None:
    """Try it: permissions alone do not tell of a disk that is read-only, or of folders in which the system lets nobody make files."""
    trial = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.trial")
    try:
        trial.mkdir()
        trial.rmdir()
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None


def _foreign(folder: Path) -> Path | None:
    """Something under a folder that no writer of parts left there; ``name=value`` folders are theirs."""
    for found in sorted(folder.iterdir()):  # not all at once: it may be somebody's home
        is_folder = found.is_dir() and not found.is_symlink()
        if not (_PARTS.fullmatch(found.name) or (is_folder and "=" in found.name)):
            return found
        deeper = _foreign(found) if is_folder else None
        if deeper is not None:
            return deeper
    return None


@contextmanager
def writing(path: str, *, what: str, overwrite: bool = False) -> Iterator[Path]:
    """Give a hidden name beside `path` to write a file or a folder to; it gets its real name when the block is done.

    Whatever ends the block early, an interrupt too, removes what was written. So under `path` there is all or nothing.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with writing(str(folder / "a.txt"), what="example") as draft:
    ...     _ = draft.write_text("all of it")
    ...     (folder / "a.txt").exists()
    False
    >>> [p.name for p in folder.iterdir()]
    ['a.txt']
    """
    check_output(path, what=what, overwrite=overwrite)
    target = Path(path).absolute()
    draft = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.partial")
    try:
        yield draft
        _settle(draft)
        # Another process may have written there while the query ran.
        check_output(path, what=what, overwrite=overwrite)
        _rename(draft, target)
    except BaseException:
        _remove(draft)
        raise


def _settle(draft: Path) -> None:
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
