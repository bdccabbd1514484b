"""The fluent handles Stream, Signal, UniformSignal and Windowed: the table of contents of the language, one line per method."""

from hydrophone.handles.query import Query, handle
from hydrophone.handles.signal import Signal
from hydrophone.handles.stream import Stream, Tumbling
from hydrophone.handles.uniform import UniformSignal
from hydrophone.handles.windowed import Windowed

__all__ = ["Query", "Signal", "Stream", "Tumbling", "UniformSignal", "Windowed", "handle"]
