"""Queries and changes of the ledger, one module per noun."""
