"""Plots, badges and flame graphs."""
