"""How long the report site of a large lab takes."""
