"""Searches by hand: any repository, any command that prints a number, no laboratory."""
