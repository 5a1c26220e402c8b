"""`kilonova run console`: the console as a process of its own, on any cluster.

It explains why pods are pending, by the code of `kilonova why`; so it is here, and not in
`kilonova.console`. Other components have their processes in their own packages.
"""
