"""Finds the commit that made a FreeBSD router slower, and verifies it.

`bisect` has the statistics and decisions, `store` the database and git, `workers` the builds, boots
and measurements, `steps` all that depends on Buildbot, and `reports` mails, pages and plots. `demo`
is a simulated lab.
"""
