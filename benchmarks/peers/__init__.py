"""Other searches, as engines of `benchmarks.engine`."""
