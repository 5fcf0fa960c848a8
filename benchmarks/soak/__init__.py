"""Sixty nights of a lab: memory, database, and what was found, with faults at realistic rates."""
