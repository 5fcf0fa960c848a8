"""Settings, secrets, rights, control of the service, compute process and database thread."""
