"""Entries of Spark's logs that are whole JSON and say something else than Spark wrote; no session is needed to tell."""

from __future__ import annotations

from pathlib import Path

import pytest

import hydrophone as hp
from hydrophone.spark.streaming.logs import check_logs

FILES = {
    "metadata": '{"id":"d9d11738"}',
    "offsets/0": 'v1\n{"batchWatermarkMs":0,"conf":{"a":"b"}}\n{"logOffset":0}',
    "commits/0": 'v1\n{"nextBatchWatermarkMs":0}',
    "sources/0/0": 'v1\n{"path":"file:///in/a.csv","timestamp":1,"batchId":0}',
}
ODD = [
    ("metadata", '{"id":7}'),
    ("metadata", "[]"),
    ("offsets/0", 'v1\n{"batchWatermarkMs":0,"conf":[]}\n{"logOffset":0}'),
    ("offsets/0", 'v1\n{"batchWatermarkMs":0}\n{"logOffset":"x"}'),
    ("offsets/0", 'v1\n{"batchWatermarkMs":0}\n[0]'),
    ("commits/0", "v1\nnull"),
    ("commits/0", "v1\n[]"),
    ("sources/0/0", 'v1\n{"path":1,"timestamp":1,"batchId":0}'),
    ("sources/0/0", 'v1\n{"path":"a","timestamp":"1","batchId":0}'),
    ("sources/0/0", "v1\ntrue"),
]


def checkpoint(home: Path) -> Path:
    for name, text in FILES.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    return home


def test_whole_logs_pass(tmp_path: Path) -> None:
    check_logs(checkpoint(tmp_path))


@pytest.mark.parametrize(("name", "text"), ODD)
def test_entries_that_say_something_else_are_named(tmp_path: Path, name: str, text: str) -> None:
    (checkpoint(tmp_path) / name).write_text(text)
    with pytest.raises(hp.DataError, match=f"{name} is damaged") as told:
        check_logs(tmp_path)
    assert told.value.hint
