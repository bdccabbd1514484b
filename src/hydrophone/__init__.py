"""Hydrophone: listen to signals in streams and lakes."""

from hydrophone import plot, read, write
from hydrophone.batch import Events, Progress, Segments, Windows
from hydrophone.engine import late
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
from hydrophone.expr import col, lit, when
from hydrophone.handles import Signal, Stream, UniformSignal, Windowed
from hydrophone.handles.relations import union
from hydrophone.ops.digital_filter import DigitalFilter
from hydrophone.ops.fills import constant, cubic, fill_with, quadratic, zero_order
from hydrophone.ops.flush import lazy, slow
from hydrophone.ops.functions import function
from hydrophone.ops.iterate import StatefulOperator
from hydrophone.ops.picks import distinct_count, first, last, quantile, top_k
from hydrophone.ops.sampling import hold, linear
from hydrophone.ops.snap import estimate_period
from hydrophone.ops.summaries import aggregate, count, mean, std, variance
from hydrophone.ops.summaries import max_ as max
from hydrophone.ops.summaries import min_ as min
from hydrophone.ops.summaries import sum_ as sum
from hydrophone.ops.window_operator import WindowOperator
from hydrophone.progress import delayed, ordered, punctuated
from hydrophone.sigseg import SigSeg
from hydrophone.sources import from_arrow, from_pandas, from_polars, from_segments, from_spark
from hydrophone.timebase import Timebase

__version__ = "0.1.0"

__all__ = [
    "DataError",
    "DigitalFilter",
    "Events",
    "HydrophoneError",
    "LateEventError",
    "ParameterError",
    "PlanError",
    "Progress",
    "Segments",
    "SigSeg",
    "Signal",
    "SignalTypeError",
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
    "col",
    "constant",
    "count",
    "cubic",
    "delayed",
    "distinct_count",
    "estimate_period",
    "fill_with",
    "first",
    "from_arrow",
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
    "slow",
    "std",
    "sum",
    "top_k",
    "union",
    "variance",
    "when",
    "write",
    "zero_order",
]
