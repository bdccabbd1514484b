"""What would take more memory than there is ends in an error that names the operator, before memory is asked for."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hydrophone as hp
from hydrophone.errors import DataError, ParameterError

DAY = 86_400 * 10**9


def lived(days: int = 400) -> hp.Stream:
    rows = pa.table({"k": ["a", "b"], "t": [0, DAY], "end": [5, days * DAY], "v": [1.0, 2.0]})
    return hp.from_arrow(rows, key="k", time="t", end="end")


def uniform(step: int = 10**6) -> hp.UniformSignal:
    rows = pa.table({"t": np.arange(64) * step, "v": np.arange(64.0)})
    return hp.from_arrow(rows, time="t").signal("v").sample(step)


RUNNING: dict[str, tuple[Callable[[], Any], str]] = {
    "chop": (
        lambda: lived().chop("1us"),
        "chop: .* pieces of lifetimes from one batch are too many; .* of key {'k': 'b'}",
    ),
    "chop far": (lambda: lived(100_000).chop(1), "chop: .* pieces of lifetimes"),
    "snapshot": (lambda: lived().snapshot(report="1us").agg(n=hp.count()), "snapshot: .* pieces of lifetimes"),
    "coincidence": (lambda: lived().coincidence(1, "k", report="1us"), "snapshot: .* pieces of lifetimes"),
    "sliding": (lambda: lived().sliding("1d", every="1us").agg(n=hp.count()), "sliding: .* results from one batch"),
    "report": (lambda: lived().sliding("1d", every="1d", report="1us").agg(n=hp.count()), "sliding: .* results"),
    "tumble report": (lambda: lived().tumble("1d", report="1us").agg(n=hp.count()), ": .* results"),
    "upsample": (lambda: uniform(step=10**9).upsample(10**8), "upsample: .* samples from one batch are too many"),
    "sample": (lambda: lived().signal("v").sample("1ns", fill=hp.hold()), "sample: .* samples from one batch"),
}


@pytest.mark.parametrize("name", RUNNING)
def test_rows_that_would_give_too_many_are_an_error(name: str) -> None:
    make, said = RUNNING[name]
    with pytest.raises(DataError, match=said) as error:
        make().to_arrow()
    assert "Hint: " in str(error.value)


BUILDING: dict[str, Callable[[], Any]] = {
    "window": lambda: uniform().window(2**40),
    "duration": lambda: uniform().window("40000d"),
    "upsample": lambda: uniform().upsample(10**9),
    "moving": lambda: uniform().moving_mean(2**40),
    "rolling": lambda: uniform().rms(2**40),
    "taps": lambda: uniform().lowpass(100, taps=2**40),
    "order": lambda: uniform().lowpass(100, order=10**9),
    "decimate": lambda: uniform().decimate(10**9),
    "resample_poly": lambda: uniform().resample_poly(up=10**9, down=7),
    "epochs": lambda: uniform().epochs(lived().key_by(), before=2**40, after=1),
    "peaks": lambda: uniform().find_peaks(distance=2**40),
    "hampel": lambda: uniform().hampel(2**40 + 1),
    "sliding_dft": lambda: uniform().sliding_dft(2**40),
    "difference": lambda: uniform().difference(2**40),
    "cfar": lambda: uniform().cfar(2.0, cells=2**40),
    "mel": lambda: uniform().window(8).rfft().power().mel_bands(10**9),
    "octave": lambda: uniform().window(8).rfft().power().octave_bands(10**9),
}


@pytest.mark.parametrize("name", BUILDING)
def test_sizes_beyond_all_memory_are_refused_when_the_query_is_built(name: str) -> None:
    with pytest.raises(ParameterError, match="at most"):
        BUILDING[name]()


def test_an_operator_without_memory_is_named() -> None:
    """In a process of its own, which may not have more: what is not known beforehand is an error of the operator all the same."""
    script = """
        import psutil, resource
        import numpy as np, pyarrow as pa, hydrophone as hp
        rows = pa.table({"t": np.arange(64) * 1_000_000, "v": np.arange(64.0)})
        x = hp.from_arrow(rows, time="t").signal("v").sample("1ms")
        x.window(8).to_arrow()
        query = x.window(2**28, hop=1)
        most = psutil.Process().memory_info().vms + (1 << 30)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        try:
            query.to_arrow()
        except hp.DataError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=120)
    assert "window: there is not enough memory: Unable to allocate" in done.stdout, done.stderr[-2_000:]
    assert "Hint: " in done.stdout
