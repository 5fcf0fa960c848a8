"""Formatting of numbers and text, templates and ministat output."""
