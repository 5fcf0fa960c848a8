"""Lab description files."""
