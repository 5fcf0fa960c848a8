"""Bayesian search for the culprit among the commits of a range."""
