"""Detection of regressions: nightly screen, retest, events and trends."""
