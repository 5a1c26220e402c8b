"""`kilonova serve bench`: load on a service or an address.

`command` has the flags, `settings` checks them, `session` runs the load, `perf_analyzer` runs
Triton's own load generator as a Job.
"""
