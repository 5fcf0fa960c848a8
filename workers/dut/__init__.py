"""Device under test: deployment, boot methods and recovery."""
