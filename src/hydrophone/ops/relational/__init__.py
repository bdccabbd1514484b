"""Operators on events: rows, keys, lifetimes, sets, joins, choices among events."""
