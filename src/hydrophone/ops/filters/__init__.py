"""Filters on uniform signals: by taps, recursive, moving statistics."""
