"""Robust statistics: effect sizes, change points, boot modes and variance components."""
