"""The report site: every page of it as text."""
