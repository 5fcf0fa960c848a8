"""Data types that all other packages share."""
