"""Output that a query would read as its own input, or that would take the place of it, is refused before anything runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import hydrophone as hp
from hydrophone.connect.output_conflicts import check_output_apart, check_outputs_separate
from hydrophone.plan.source import places_of

ROWS = pa.table({"t": [0, 10], "v": [1.5, 2.5]})

Write = Callable[[Any, Path], None]
WRITERS: dict[str, Write] = {
    "to_parquet": lambda q, path: q.to_parquet(path, overwrite=True),
    "save": lambda q, path: q.save(hp.write.parquet(str(path)), overwrite=True),
    "save csv": lambda q, path: q.save(hp.write.csv(str(path)), overwrite=True),
    "to_csv": lambda q, path: q.to_csv(path, overwrite=True),
    "late": lambda q, path: list(q.batches(late=hp.late.side(str(path)))),  # type: ignore[dict-item,return-value]
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two files in a folder, the same as CSV, and links to both folders from elsewhere."""
    (tmp_path / "in" / "day=1").mkdir(parents=True)
    (tmp_path / "text").mkdir()
    (tmp_path / "away").mkdir()
    pq.write_table(ROWS, tmp_path / "in" / "a.parquet")
    pq.write_table(ROWS, tmp_path / "in" / "day=1" / "b.parquet")
    pc.write_csv(ROWS, tmp_path / "text" / "a.csv")
    (tmp_path / "away" / "in").symlink_to(tmp_path / "in")
    (tmp_path / "away" / "text").symlink_to("../text")
    (tmp_path / "away" / "a.parquet").symlink_to("../in/a.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tree(home: Path) -> dict[str, bytes | None]:
    return {str(p.relative_to(home)): p.read_bytes() if p.is_file() else None for p in home.rglob("*")}


INSIDE = ["in/out.parquet", "in/day=1/out.parquet", "in/new/../out.parquet", "away/in/out.parquet", "in/day=2"]
INSTEAD = ["in", "in/.", "in/a.parquet", "away/in", "away/in/a.parquet", "away/a.parquet", "in/day=1/../a.parquet", "."]


@pytest.mark.parametrize("path", [*INSIDE, *INSTEAD])
@pytest.mark.parametrize("source", ["in", "away/in", "./in/", "in/**", "away/*"])
def test_output_that_a_query_would_read_is_refused(home: Path, source: str, path: str) -> None:
    before = tree(home)
    query = hp.read.parquet(source, time="t")
    with pytest.raises(hp.ParameterError, match=r"its own output|take the place") as told:
        query.to_parquet(path, overwrite=True)
    assert told.value.hint
    assert tree(home) == before


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize(("read", "source", "name"), [("parquet", "in", "x.parquet"), ("csv", "text", "x.csv")])
def test_every_writer_looks_at_every_kind_of_source(home: Path, read: str, source: str, name: str, writer: str) -> None:
    before = tree(home)
    query = getattr(hp.read, read)(source, time="t", progress=hp.ordered())
    both = query.select("v").union(hp.from_arrow(ROWS, time="t", progress=hp.ordered()))
    for path in (home / source, home / source / ("a" + name[1:])):
        with pytest.raises(hp.ParameterError, match=r"take the place"):
            WRITERS[writer](both, path)
    if ("csv" in writer) == (read == "csv"):
        with pytest.raises(hp.ParameterError, match=r"its own output"):
            WRITERS[writer](both, home / source / name)
    assert tree(home) == before


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("in", "out.parquet"),
        ("in", "in.parquet"),
        ("in", "inside"),
        ("in", "in/_work.parquet"),  # a name that readers pass over
        ("in/a.parquet", "in/c.parquet"),  # one file, and another beside it
        ("in/a*.parquet", "in/c.parquet"),
        ("in/day=*/*.parquet", "in/c.parquet"),
        ("text", "text/c.parquet"),
    ],
)
def test_output_beside_the_input_is_fine(home: Path, source: str, path: str) -> None:
    query = (hp.read.csv if source == "text" else hp.read.parquet)(source, time="t")
    count = len(query.to_arrow())
    query.to_parquet(path)
    again = (hp.read.csv if source == "text" else hp.read.parquet)(source, time="t")
    assert len(again.to_arrow()) == count == len(hp.read.parquet(path, time="t").to_arrow())


def test_a_watched_folder_has_links_to_others(home: Path) -> None:
    """Spark follows them where it watches a folder."""
    (home / "out").mkdir()
    (home / "in" / "link").symlink_to("../out")
    (home / "in" / "self").symlink_to("../in")
    data = places_of(hp.read.parquet("in", time="t").node)
    for path in ("out", "out/results", "in/link/results"):
        with pytest.raises(hp.ParameterError, match=r"its own output|take the place"):
            check_output_apart(data, path, what="start", watched=True)
    check_output_apart(data, "other", what="start", watched=True)


def test_outputs_of_a_stream_do_not_overlap(home: Path) -> None:
    for one, other in [("out", "out"), ("out", "out/late"), ("out/../away/x", "away"), ("away/in/x", "in")]:
        with pytest.raises(hp.ParameterError, match=r"start: the sink .* and the late rows .* overlap"):
            check_outputs_separate({"sink": one, "late rows": other}, what="start")
    check_outputs_separate({"sink": "out", "late rows": "outer", "checkpoint": "out/_checkpoint"}, what="start")


# --- links, and what is neither file nor folder -----------------------------------------------------------------------

FILES = ["to_parquet", "save", "save csv", "to_csv"]
STREAM = hp.from_arrow(ROWS, time="t")


@pytest.mark.parametrize("writer", FILES)
@pytest.mark.parametrize("there", [True, False])
def test_a_link_stays_and_what_it_points_at_is_replaced(tmp_path: Path, writer: str, there: bool) -> None:
    real, link = tmp_path / "real" / "x.parquet", tmp_path / "link.parquet"
    real.parent.mkdir()
    if there:
        real.write_text("old")
    link.symlink_to("real/x.parquet")
    with pytest.raises(hp.ParameterError, match="exists already"):
        STREAM.to_parquet(link)
    WRITERS[writer](STREAM, link)
    assert link.is_symlink() and os.readlink(link) == "real/x.parquet"
    assert real.is_file() and real.stat().st_size > 10 and os.listdir(real.parent) == ["x.parquet"]


def test_a_link_to_a_folder_stays_too(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("results")
    STREAM.to_parquet(tmp_path / "link", overwrite=True)
    STREAM.to_parquet(tmp_path / "link", overwrite=True)
    assert (tmp_path / "link").is_symlink() and os.listdir(tmp_path / "results") == ["part-00000.parquet"]
    (tmp_path / "results" / "thesis.tex").write_text("years of work")
    with pytest.raises(hp.ParameterError, match="other things than a result"):
        STREAM.to_parquet(tmp_path / "link", overwrite=True)


@pytest.mark.parametrize("writer", FILES)
@pytest.mark.parametrize("kind", ["device", "pipe", "socket", "link that leads to itself"])
@pytest.mark.parametrize("linked", [False, True])
def test_what_is_no_file_is_never_replaced(tmp_path: Path, writer: str, kind: str, linked: bool) -> None:
    import socket

    path = tmp_path / "x"
    if kind == "device":
        path = Path("/dev/null")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(os.path.relpath(path))  # the name of a socket must be short
    else:
        path.symlink_to(path)
    before = os.lstat(path)
    if linked:
        (tmp_path / "link").symlink_to(path)
    with pytest.raises(hp.ParameterError, match=f"is a {kind}"):
        WRITERS[writer](STREAM, tmp_path / "link" if linked else path)
    assert os.path.samestat(os.lstat(path), before)
