"""Other searches, under the protocol of `benchmarks.engine`."""
