"""Time to write the site of a large lab."""
