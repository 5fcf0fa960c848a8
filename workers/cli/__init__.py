"""The `netbisect-lab` command."""
