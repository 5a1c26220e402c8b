"""`kilonova nodes`, `gangs`, `workloads` and `queues`: listing and watching, like `kubectl get`.

A **table** is the rows of one kind as the console has them, a **view** what a list shows of an
object (its JSON), a **list definition** where the views come from and their columns.
`resource_list.show_list` is the entry point; `definitions` has the lists, `watch` follows them.
"""
