"""Act: build kernels, boot machines, send packets. No decisions, no database, no Buildbot."""
