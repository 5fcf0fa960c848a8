"""Backup and restore of a service."""
