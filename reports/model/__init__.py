"""Presentation model of an alert."""
