"""Benchmarks and their peers."""
