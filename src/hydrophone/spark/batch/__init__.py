"""Queries as batch DataFrames."""
