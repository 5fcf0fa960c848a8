"""The commands of the simulated machines.

Each module has tables from command names to functions of the machine, the session and the
arguments. Messages and exit statuses are those of FreeBSD 14.
"""
