"""Requests by people and programs: validation, REST interface, tokens and clients."""
