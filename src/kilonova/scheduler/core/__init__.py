"""The decision as pure functions on values and columns: no client, no clock, no randomness.

A **row** is a node in the snapshot, a **shape** what equal pods ask for, **room** how many pods of
a shape a node could take now, a **booking** a pod counted against a node. A **gang** is placed all
or nothing; its **groups** have members and a minimum. A **level** is the key of a node label, and
the nodes that share a value of it are a **domain**. A **layout** are the GPUs of a node as they
stand to each other; a **share** is what a pod is given of one of them.
"""
