"""Kernel builds, boots and measurements. Makes no decisions; uses no database and no Buildbot."""
