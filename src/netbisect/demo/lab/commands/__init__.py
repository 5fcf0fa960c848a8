"""What the machines of the simulated lab can be told, by subject.

Each module has tables: name of a command -> function of the machine, the session and the
arguments. Messages and statuses are those of FreeBSD 14.
"""
