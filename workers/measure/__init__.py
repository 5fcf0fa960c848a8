"""Trials: traffic, telemetry, profiles and noise."""
