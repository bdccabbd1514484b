"""Hydrophone: listen to signals in streams and lakes."""

from typing import TYPE_CHECKING, Any

from hydrophone import plot
from hydrophone.api import Signal, Stream, UniformSignal, Windowed, read
from hydrophone.api.foreign import FUNCTIONS, NAMES
from hydrophone.api.graph import Graph
from hydrophone.api.hub import Hub
from hydrophone.api.relations import union
from hydrophone.api.samples import from_numpy
from hydrophone.api.segments import sync, zip
from hydrophone.api.sources import from_arrow, from_pandas, from_polars, from_segments, from_spark
from hydrophone.connect import write
from hydrophone.connect.live import Source
from hydrophone.connect.sink import Sink
from hydrophone.engine import late
from hydrophone.engine import shedding as shed
from hydrophone.engine.schedulers import DepthFirst, Fifo, GraphThread, Hybrid, OperatorThreads, RunToCompletion
from hydrophone.errors import (
    DataError,
    HydrophoneError,
    LateEventError,
    ParameterError,
    PlanError,
    SignalTypeError,
    StateVersionError,
    UnsupportedError,
)
from hydrophone.model.batch import Events, Progress, Segments, Windows
from hydrophone.model.progress import delayed, ordered, punctuated
from hydrophone.model.sigseg import SigSeg
from hydrophone.model.timebase import Timebase
from hydrophone.ops.aggregates.flush import lazy, slow
from hydrophone.ops.aggregates.order_statistics import distinct_count, first, last, quantile, top_k
from hydrophone.ops.aggregates.summaries import aggregate, count, mean, std, variance
from hydrophone.ops.aggregates.summaries import max_ as max
from hydrophone.ops.aggregates.summaries import min_ as min
from hydrophone.ops.aggregates.summaries import sum_ as sum
from hydrophone.ops.frames.frames import bands
from hydrophone.ops.frames.trailing import duration
from hydrophone.ops.signals.fills import constant, cubic, fill_with, quadratic, zero_order
from hydrophone.ops.signals.functions import function
from hydrophone.ops.signals.sample import hold, linear
from hydrophone.ops.signals.snap import estimate_period
from hydrophone.ops.user.digital_filter import DigitalFilter
from hydrophone.ops.user.iterate import StatefulOperator
from hydrophone.ops.user.window_operator import WindowOperator
from hydrophone.plan.expr import col, lit, when
from hydrophone.version import __version__ as __version__

__all__ = [
    "DataError",
    "DepthFirst",
    "DigitalFilter",
    "Events",
    "Fifo",
    "Graph",
    "GraphThread",
    "Hub",
    "Hybrid",
    "HydrophoneError",
    "LateEventError",
    "OperatorThreads",
    "ParameterError",
    "PlanError",
    "Progress",
    "RunToCompletion",
    "Segments",
    "SigSeg",
    "Signal",
    "SignalTypeError",
    "Sink",
    "Source",
    "StateVersionError",
    "StatefulOperator",
    "Stream",
    "Timebase",
    "UniformSignal",
    "UnsupportedError",
    "WindowOperator",
    "Windowed",
    "Windows",
    "aggregate",
    "bands",
    "col",
    "constant",
    "count",
    "cubic",
    "delayed",
    "distinct_count",
    "duration",
    "estimate_period",
    "fill_with",
    "first",
    "from_arrow",
    "from_numpy",
    "from_pandas",
    "from_polars",
    "from_segments",
    "from_spark",
    "function",
    "hold",
    "last",
    "late",
    "lazy",
    "linear",
    "lit",
    "max",
    "mean",
    "min",
    "ordered",
    "plot",
    "punctuated",
    "quadratic",
    "quantile",
    "read",
    "shed",
    "slow",
    "std",
    "sum",
    "sync",
    "top_k",
    "union",
    "variance",
    "when",
    "write",
    "zero_order",
    "zip",
]

if not TYPE_CHECKING:  # a type checker must go on to refuse what is not there

    def __getattr__(name: str) -> Any:
        """What other libraries call so: say what to write here."""
        if name in FUNCTIONS:
            raise AttributeError(f"hydrophone has no {name!r}: write {FUNCTIONS[name]}")
        if name in NAMES:
            raise AttributeError(f"hydrophone has no {name!r}: it is a method of queries, write x.{NAMES[name]}")
        raise AttributeError(f"module 'hydrophone' has no attribute {name!r}")
