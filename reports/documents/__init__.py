"""Typed documents and their formats: JSON, Atom, CSV, OpenAPI, Prometheus, netbenches."""
