"""Git: mirror, history and revision names."""
