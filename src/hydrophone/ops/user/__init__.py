"""Operators that users define."""
