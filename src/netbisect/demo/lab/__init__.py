"""The simulated lab: routers, packet generators, a power switch and consoles behind SSH.

It runs as a process of its own and knows no revisions: the forwarding rate of a router follows from
the kernel file on its disk, its noise profile and its rules.
"""
