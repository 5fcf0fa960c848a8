"""Connections to lab machines: SSH, console and power."""
