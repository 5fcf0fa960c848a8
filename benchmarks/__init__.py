"""Benchmarks of the search and the detection, with other methods for comparison."""
