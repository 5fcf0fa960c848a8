"""Injects faults at every step of a nightly job, a retest and a bisection in a simulated lab.

The product is unchanged: the processes of a service are started with hooks of this package.
"""
