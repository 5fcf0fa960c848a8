"""The demonstration: a source repository, simulated machines behind SSH and a mail server.

No other package imports it.
"""
