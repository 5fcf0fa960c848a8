"""Benchmark of the detection on simulated labs, with other rules for comparison."""
