"""How long the ledger takes when it is large."""
