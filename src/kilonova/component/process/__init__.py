"""A component as a process of its own on any cluster: `kilonova run`.

`process` runs it, `preflight` has checks before its start, `config_files` reads its configuration
file, `flags` are the flags that all such commands share.
"""
