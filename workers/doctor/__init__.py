"""Checks of a lab's set-up."""
