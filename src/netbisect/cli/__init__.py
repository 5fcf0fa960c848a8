"""The `netbisect` command: one module per subcommand."""
