"""The fluent handles Stream, Signal, UniformSignal and Windowed: the table of contents of the language, one line per method."""

from hydrophone.api.handles import Signal, Stream, UniformSignal, Windowed
from hydrophone.api.query import Query, handle
from hydrophone.api.timewindows import Grouped

__all__ = ["Grouped", "Query", "Signal", "Stream", "UniformSignal", "Windowed", "handle"]
