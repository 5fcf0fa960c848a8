"""Kernel builds: checkout, patches, make, artifacts."""
