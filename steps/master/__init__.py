"""Buildbot master: builders, steps, mailer and fixes of Buildbot itself."""
