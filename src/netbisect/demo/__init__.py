"""A whole small lab to play with: a tree, machines behind ssh, a mail sink, and a night.

Nothing outside this package knows of it.
"""
