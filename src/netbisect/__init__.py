"""Finds the commit that made a FreeBSD router slower, and proves it.

Five folders, five verbs: `bisect` decides, `store` remembers, `workers` act, `steps` drive,
`reports` tell. `demo` is a whole small lab to play with.
"""
