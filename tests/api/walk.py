"""Every public method with a parameter that is a number, a frequency or a time, in one valid call: for tests that vary one of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import hydrophone as hp

MS = 1_000_000
ROWS = 64


def rows(end: bool = False) -> hp.Stream:
    time = np.arange(ROWS) * MS
    table = pa.table({"t": time, "end": time + 3 * MS, "i": np.arange(ROWS), "v": np.sin(np.arange(ROWS) / 3)})
    return hp.from_arrow(
        table if end else table.drop_columns(["end"]), time="t", end="end" if end else None, name="rows"
    )


def uniform() -> hp.UniformSignal:
    return rows().signal("v").sample("1ms")


def vector() -> hp.UniformSignal:
    return rows().with_columns(w=hp.col("v") * 2).signal("v", "w").sample("1ms")


def counted(x: Any) -> hp.Stream:
    found: hp.Stream = x.agg(n=hp.count())
    return found


@dataclass(frozen=True)
class Call:
    """A call of a public function with arguments that are right."""

    name: str
    make: Callable[..., Any]
    arguments: dict[str, Any]

    def __call__(self, **other: Any) -> Any:
        return self.make(**{**self.arguments, **other})


OWNERS: dict[str, Callable[[], Any]] = {
    "Stream": lambda: rows(end=True),
    "Signal": lambda: rows().signal("v"),
    "UniformSignal": uniform,
    "Windowed": lambda: uniform().window(8),
}

ARGUMENTS: dict[str, dict[str, Any]] = {
    "Stream.alter": {"duration": 5},
    "Stream.head": {"rows": 3},
    "Stream.anti_join": {"other": rows(), "limit": 10**6},
    "Stream.asof_join": {"other": rows(), "tolerance": 5, "limit": 10**6},
    "Stream.band_join": {"other": rows(), "before": 5, "after": 5, "limit": 10**6},
    "Stream.batches": {"rows": 7, "unmarked": 100},
    "Stream.chop": {"every": MS, "offset": 3},
    "Stream.clip": {"most": 5},
    "Stream.coincidence": {"k": 1, "within": 5, "report": MS},
    "Stream.count_window": {"size": 3, "by": "i", "within": 5 * MS},
    "Stream.difference": {"other": rows(end=True), "limit": 10**6},
    "Stream.extend": {"by": 5},
    "Stream.frames": {"status": hp.bands([0.0], of="v"), "noise": MS, "at_least": 2 * MS, "report": 8 * MS},
    "Stream.join": {"other": rows(), "limit": 10**6},
    "Stream.last_n": {"n": 3, "within": MS},
    "Stream.pairs": {"within": MS},
    "Stream.pattern": {"up": hp.col("v") > 0, "down": hp.col("v") < 0, "within": MS},
    "Stream.reservoir": {"k": 2, "size": 9 * MS, "offset": 1, "seed": 3},
    "Stream.semi_join": {"other": rows(), "limit": 10**6},
    "Stream.session": {"gap": MS},
    "Stream.shift": {"by": 5},
    "Stream.sliding": {"size": 8 * MS, "every": 4 * MS, "offset": 1, "report": 2 * MS},
    "Stream.snapshot": {"report": MS},
    "Stream.to_arrow": {"start": 0, "end": 9 * MS, "threads": 2, "memory": 10**9},
    "Stream.top_k": {"k": 2, "by": "v", "size": 9 * MS, "offset": 1},
    "Stream.tumble": {"size": 8 * MS, "offset": 1, "report": 2 * MS},
    "Stream.without": {"other": rows(), "limit": 10**6},
    "Signal.sample": {"spacing": MS, "offset": 0},
    "Signal.snap": {"spacing": MS, "tolerance": 5, "offset": 0},
    "UniformSignal.above": {"threshold": 0.5, "report": 8 * MS},
    "UniformSignal.bandpass": {"low": 50.0, "high": 100.0, "order": 2},
    "UniformSignal.bandpass taps": {"low": 50.0, "high": 100.0, "taps": 11},
    "UniformSignal.bandstop": {"low": 50.0, "high": 100.0, "order": 2},
    "UniformSignal.bandstop taps": {"low": 50.0, "high": 100.0, "taps": 11},
    "UniformSignal.cfar": {"threshold": 2.0, "cells": 4, "guard": 1, "report": 8 * MS},
    "UniformSignal.cfar_score": {"cells": 4, "guard": 1},
    "UniformSignal.channel": {"number": 0},
    "UniformSignal.clip": {"low": -0.5, "high": 0.5},
    "UniformSignal.coherence": {"other": uniform(), "size": 8, "average": 2, "hop": 4},
    "UniformSignal.continuous": {"value": 0.5, "max_gap": 9 * MS},
    "UniformSignal.crest": {"size": 8, "hop": 4},
    "UniformSignal.csd": {"other": uniform(), "size": 8, "average": 2, "hop": 4},
    "UniformSignal.csd alpha": {"other": uniform(), "size": 8, "alpha": 0.5},
    "UniformSignal.dc_block": {"r": 0.9},
    "UniformSignal.decimate": {"n": 2},
    "UniformSignal.detrend": {"size": 8},
    "UniformSignal.deinterleave": {"n": 2},
    "UniformSignal.difference": {"lag": 2},
    "UniformSignal.downsample": {"n": 3, "phase": 1},
    "UniformSignal.dwt": {"wavelet": "db2", "levels": 2},
    "UniformSignal.ema": {"alpha": 0.5},
    "UniformSignal.energy": {"size": 8, "hop": 4},
    "UniformSignal.envelope": {"size": 9},
    "UniformSignal.epochs": {"events": rows(), "before": 2, "after": 2},
    "UniformSignal.feedback": {"body": lambda x, y: x - y * 0.5, "delay": 4},
    "UniformSignal.filtfilt": {"sections": [[0.1, 0.1, 0.0, 1.0, -0.5, 0.0]], "tolerance": 1e-6},
    "UniformSignal.find_peaks": {"height": 0.0, "distance": 2, "prominence": 0.1, "within": 3, "plateau": 9},
    "UniformSignal.frames": {"status": hp.bands([0.0]), "noise": MS, "at_least": 2 * MS, "report": 8 * MS},
    "UniformSignal.gcc_phat": {"other": uniform(), "size": 8, "hop": 4, "max_delay": 2 * MS},
    "UniformSignal.goertzel": {"frequency": 100.0, "size": 8, "hop": 4},
    "UniformSignal.group_delay": {"frequency": 100.0},
    "UniformSignal.hampel": {"size": 5, "sigmas": 2.0},
    "UniformSignal.highpass": {"cutoff": 100.0, "order": 2},
    "UniformSignal.highpass taps": {"cutoff": 100.0, "taps": 11},
    "UniformSignal.hilbert": {"size": 9},
    "UniformSignal.instantaneous_frequency": {"size": 9},
    "UniformSignal.integrate": {"reset": 8 * MS},
    "UniformSignal.kurtosis": {"size": 8, "hop": 4},
    "UniformSignal.lowpass": {"cutoff": 100.0, "order": 2},
    "UniformSignal.lowpass taps": {"cutoff": 100.0, "taps": 11},
    "UniformSignal.max": {"size": 8, "hop": 4},
    "UniformSignal.mean": {"size": 8, "hop": 4},
    "UniformSignal.min": {"size": 8, "hop": 4},
    "UniformSignal.moving": {"how": "std", "size": 8, "ddof": 1},
    "UniformSignal.moving_energy": {"size": 8},
    "UniformSignal.moving_max": {"size": 8},
    "UniformSignal.moving_mean": {"size": 8},
    "UniformSignal.moving_median": {"size": 8},
    "UniformSignal.moving_min": {"size": 8},
    "UniformSignal.moving_rms": {"size": 8},
    "UniformSignal.moving_std": {"size": 8, "ddof": 1},
    "UniformSignal.moving_sum": {"size": 8},
    "UniformSignal.normalise": {"size": 8},
    "UniformSignal.notch": {"freq": 100.0, "q": 10.0},
    "UniformSignal.power": {"size": 8, "hop": 4},
    "UniformSignal.resample": {"spacing": 2 * MS, "offset": 0},
    "UniformSignal.rewindow": {"size": 8, "gap": 2},
    "UniformSignal.resample_poly": {"rate": 500.0},
    "UniformSignal.resample_poly up": {"up": 2, "down": 3},
    "UniformSignal.rms": {"size": 8, "hop": 4},
    "UniformSignal.rolling": {"kind": "mean", "size": 8, "hop": 4},
    "UniformSignal.savgol": {"window": 9, "polyorder": 2, "deriv": 1, "delta": 1.0},
    "UniformSignal.shift": {"by": 2},
    "UniformSignal.shift_frequency": {"frequency": 100.0},
    "UniformSignal.shift_time": {"by": MS},
    "UniformSignal.single_pole": {"alpha": 0.5},
    "UniformSignal.sliding_dft": {"size": 8, "hop": 4},
    "UniformSignal.spectrogram": {"size": 8, "hop": 4},
    "UniformSignal.sta_lta": {"short": 2, "long": 8},
    "UniformSignal.std": {"size": 8, "hop": 4},
    "UniformSignal.stft": {"size": 8, "hop": 4},
    "UniformSignal.sum": {"size": 8, "hop": 4},
    "UniformSignal.trigger": {"on": 0.5, "off": 0.1, "report": 8 * MS},
    "UniformSignal.upsample": {"n": 2},
    "UniformSignal.welch": {"size": 8, "average": 2, "hop": 4},
    "UniformSignal.welch alpha": {"size": 8, "alpha": 0.5},
    "UniformSignal.coherence alpha": {"other": uniform(), "size": 8, "alpha": 0.5},
    "UniformSignal.window": {"size": 8, "hop": 4},
    "UniformSignal.zscore": {"size": 8, "ddof": 1},
    "Windowed.average": {"count": 2},
    "Windowed.channel": {"number": 0},
    "Windowed.dwt": {"wavelet": "haar", "levels": 2},
    "Windowed.ema": {"alpha": 0.5},
    "Windowed.idwt": {"wavelet": "haar", "levels": 2},
    "Windowed.mel_bands": {"count": 2, "low": 0.0, "high": 400.0},
    "Windowed.octave_bands": {"fraction": 1},
    "Windowed.top_k": {"k": 2},
    "Windowed.trim_peak": {"around": 1},
    "Windowed.wavelet_energy": {"wavelet": "haar", "levels": 2},
    "hp.bands": {"edges": [0.0, 2.0], "hysteresis": 0.5},
    "hp.constant": {"value": 1.0, "max_gap": 5},
    "hp.cubic": {"max_gap": 5},
    "hp.delayed": {"delay": 5, "idle": 50, "ahead": 10**9},
    "hp.delayed keys": {"delay": 5, "per_key": 3},
    "hp.delayed more": {"delay": 5, "end": 4, "lull": 50, "every": 2},
    "hp.fill_with": {"function": lambda at, v: v[:, 0], "points": 2, "max_gap": 5},
    "hp.from_numpy": {"x": np.zeros(4), "rate": 5, "name": "zeros"},
    "hp.function": {"function": np.cos, "origin": 0},
    "hp.hold": {"max_gap": 5},
    "hp.lazy": {"late": 2},
    "hp.linear": {"max_gap": 5},
    "hp.ordered": {"ahead": 10**9},
    "hp.ordered more": {"by": "v", "idle": 50, "lull": 50, "every": 2},
    "hp.punctuated": {"column": "v", "ahead": 10**9},
    "hp.punctuated more": {"column": "v", "by": "i", "idle": 50, "lull": 50, "every": 2},
    "hp.quadratic": {"max_gap": 5},
    "hp.quantile": {"column": "v", "q": 0.5},
    "hp.slow": {"every": 2, "late": 2},
    "hp.sync": {"longest": 5 * MS},
    "hp.std": {"column": "v", "ddof": 1},
    "hp.top_k": {"column": "v", "k": 2},
    "hp.variance": {"column": "v", "ddof": 1},
    "hp.zero_order": {"max_gap": 5},
}
"""By the name of the method (a second word tells two calls apart): what it is called with."""

OTHERS = {"Stream.plot", "Stream.start", "Stream.to_spark", "Stream.signal", "Stream.trailing", "hp.from_segments"} | {
    f"Stream.{name}" for name in ("to_pandas", "to_parquet", "to_csv", "save", "describe")
}
"""Methods that are not called here: they need Spark, a screen, tables, functions, lengths or a path; those take what `to_arrow` takes."""

KINDS = {
    "int": "whole",
    "int | str": "samples",
    "Limit": "samples",
    "float": "real",
    "float | str": "hertz",
    "Duration": "duration",
    "Instant": "instant",
}
"""How a parameter is taken, by its annotation."""


def public() -> Iterator[tuple[str, Callable[..., Any]]]:
    """All methods and functions with such a parameter."""
    for owner in ("Stream", "Signal", "UniformSignal", "Windowed"):
        for name, method in inspect.getmembers(getattr(hp, owner), inspect.isfunction):
            inherited = owner != "Stream" and getattr(hp.Stream, name, None) is method
            if not name.startswith("_") and not inherited and kinds(method):
                yield f"{owner}.{name}", method
    for name in dir(hp):
        if inspect.isfunction(getattr(hp, name)) and kinds(getattr(hp, name)):
            yield f"hp.{name}", getattr(hp, name)


def kinds(method: Callable[..., Any]) -> dict[str, str]:
    """The parameters of a method that are numbers or times, and how each is taken."""
    found = {n: str(p.annotation).removesuffix(" | None") for n, p in inspect.signature(method).parameters.items()}
    return {n: KINDS[a] for n, a in found.items() if a in KINDS}


def calls() -> Iterator[tuple[Call, str, str]]:
    """Every call, with one of its parameters and how that is taken."""
    methods = dict(public())
    for name, arguments in ARGUMENTS.items():
        short = name.split(" ")[0]
        for parameter, kind in kinds(methods[short]).items():
            if parameter in arguments:
                yield Call(name, _maker(short), arguments), parameter, kind


def _maker(name: str) -> Callable[..., Any]:
    owner, method = name.split(".")

    def make(**arguments: Any) -> Any:
        if method == "sync":
            return hp.sync(rows(end=True), uniform(), **arguments)
        if owner == "hp":
            return getattr(hp, method)(**arguments)
        on = OWNERS[owner]()
        if method in ("idwt", "wavelet_energy"):
            on = uniform().window(8)
        if method in ("mel_bands", "octave_bands"):
            on = uniform().window(8).rfft().power()
        found = getattr(on, method)(**arguments)
        return counted(found) if hasattr(found, "agg") and not isinstance(found, hp.api.Query) else found

    return make
