"""An object store in a directory, shared by the processes of a machine, or over a network file
system with locks.

`layout` defines what lies where; `lock` orders the writers; `store` is the `ObjectStore`.
"""
