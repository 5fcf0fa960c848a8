"""Sixty nights of a service with faults at realistic rates: memory, databases and results."""
