"""Drives the lab with Buildbot: everything that knows Buildbot or Twisted is here."""
