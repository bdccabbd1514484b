"""Interpreted or compiled: the same bits, whatever the call; and what is compiled is kept and found again."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cases import ALL_CASES, Case
from tests.choice import for_a_law

from hydrophone.model import compiled as module
from hydrophone.model import compiled_cache
from hydrophone.model.compiled import Compiled, compiled


def bits(value: Any) -> Any:
    """What two results must share: types, shapes and all bits, where every NaN is the same."""
    if isinstance(value, tuple):
        return tuple(map(bits, value))
    if not isinstance(value, np.ndarray):
        return type(value), "nan" if value != value else np.asarray(value).tobytes()
    plain = np.ascontiguousarray(value)
    if plain.dtype.kind in "fc":
        plain = plain.view(plain.real.dtype)
        plain = np.where(np.isnan(plain), np.nan, plain)
    return value.dtype, value.shape, plain.tobytes()


def written(function: Compiled, result: Any) -> Any:
    """A result without memory that was never written."""
    if function.__name__ != "_output_spans":
        return result
    *spans, left, ref, owed, before = result
    told = before > 0
    return (*spans, left[told], ref[told], owed[told], before)


def copied(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments with memory of their own; two views of one piece of memory are that again."""
    memory: dict[tuple[int, int], np.ndarray] = {}

    def copy(array: np.ndarray) -> np.ndarray:
        if not array.flags.c_contiguous or not array.size:
            return array.copy(order="K")
        flat = memory.setdefault((array.ctypes.data, array.nbytes), array.reshape(-1).view(np.uint8).copy())
        return flat.view(array.dtype).reshape(array.shape)

    return tuple(copy(a) if isinstance(a, np.ndarray) else a for a in args)


@for_a_law(ALL_CASES)
def test_both_ways_give_the_same_bits(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Call by call over a case: results, and whatever was written into arguments."""

    def both(self: Compiled, *args: Any) -> Any:
        if module._within.interpreted:
            return self.py_func(*args)
        if not self.interpret or not module._is_small(args):
            return self.dispatcher(*args)
        twin = copied(args)
        interpreted = self.interpreted(*twin)
        result = self.dispatcher(*args)
        assert bits(written(self, interpreted)) == bits(written(self, result)), self.__name__
        assert bits(twin) == bits(args), f"{self.__name__} wrote other values"
        return result

    monkeypatch.setattr(Compiled, "__call__", both)
    monkeypatch.setattr(module, "SMALL", 1 << 14)
    case.check(case.build().to_arrow())


@compiled
def _doubled(x: Any) -> Any:
    out = np.empty(len(x), np.float64)
    for i in range(len(x)):
        out[i] = _twice(x[i])
    return out


@compiled
def _twice(value: Any) -> Any:
    return 2 * value


def test_small_calls_compile_nothing() -> None:
    script = (
        "import sys, numpy as np\n"
        "from hydrophone.model.sorted_rows import stable_order\n"
        "print(stable_order(np.array([1, 0, 1]), np.array([5, 6, 4])).tolist(), 'numba' in sys.modules)\n"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert out == "[1, 2, 0] False\n"


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, np.complex64])
def test_numbers_that_widen_otherwise_are_not_interpreted(dtype: type) -> None:
    assert not module._is_small((np.zeros(2, dtype),))
    assert not module._is_small((dtype(1),))


def test_a_function_that_is_called_often_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.0)
    function = Compiled(_doubled.py_func, True, False, {})
    calls = [function(np.arange(3.0)).tolist() for _ in range(3)]
    assert calls == [[0.0, 2.0, 4.0]] * 3
    assert function._dispatcher is not None


def test_numbers_come_back_as_pythons() -> None:
    assert type(_twice(np.int64(4))) is int
    assert type(_twice(np.float64(4))) is float


def test_the_stamp_sees_what_a_function_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    before = compiled_cache.stamp(_doubled.py_func)
    assert compiled_cache.stamp(_doubled.py_func) == before

    @compiled
    def other(value: Any) -> Any:
        return 3 * value

    monkeypatch.setitem(globals(), "_twice", other)
    assert compiled_cache.stamp(_doubled.py_func) != before


def test_what_was_compiled_is_found_again(tmp_path: Path) -> None:
    script = (
        "import numpy as np\n"
        "from hydrophone.model import compiled\n"
        "from hydrophone.model.sorted_rows import _counting_order as order\n"
        "compiled.SMALL, compiled.SLOW = -1, 0.0\n"
        "print(order(np.array([1, 0, 1]), 2).tolist(), dict(order.dispatcher.stats.cache_hits) != {})\n"
    )
    environment = {"NUMBA_CACHE_DIR": str(tmp_path)}
    for found in (False, True):
        done = run_with(script, environment)
        assert done.stdout == f"[1, 0, 2] {found}\n"
        # The line that says what takes so long: once, and never when nothing is compiled.
        assert done.stderr.count("hydrophone: compiled loops for") == (not found)


def test_compiled_loops_come_with_a_zip_file(tmp_path: Path) -> None:
    home = tmp_path / "package.zip" / "hydrophone"
    with zipfile.ZipFile(home.parent, "w") as file:
        file.writestr("hydrophone/compiled_loops/a.nbc", b"new")
        file.writestr("hydrophone/compiled_loops/b.nbi", b"new")
        file.writestr("hydrophone/version.py", b"")
    place = tmp_path / "place"
    place.mkdir()
    (place / "b.nbi").write_bytes(b"own")
    compiled_cache.unpack(home, place)
    assert {p.name: p.read_bytes() for p in place.iterdir()} == {"a.nbc": b"new", "b.nbi": b"own"}


def run_with(script: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=True)
