"""The fluent handles Stream, Signal, UniformSignal and Windowed: the table of contents of the language, one line per method."""

from hydrophone.handles.query import Query, handle
from hydrophone.handles.signal import Signal
from hydrophone.handles.stream import Stream
from hydrophone.handles.timewindows import Grouped
from hydrophone.handles.uniform import UniformSignal
from hydrophone.handles.windowed import Windowed

__all__ = ["Grouped", "Query", "Signal", "Stream", "UniformSignal", "Windowed", "handle"]
