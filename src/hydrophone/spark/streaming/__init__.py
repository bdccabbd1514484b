"""Queries as Structured Streaming."""
