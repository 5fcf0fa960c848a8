"""Scheduler: turns jobs into buildsets and follows their results."""
