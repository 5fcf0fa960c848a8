"""A lab that is not there: routers, packet generators, power switch and consoles behind ssh.

A process of its own. It knows nothing of revisions: how fast a router forwards follows from the
kernel file on its disk that it booted, from its noise profile, and from its rules.
"""
