"""Detection of regressions: nightly screen, retest, grouping, events and trends."""
