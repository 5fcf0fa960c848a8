"""Feeds the parsers of what machines and people send with what nobody has thought of."""
