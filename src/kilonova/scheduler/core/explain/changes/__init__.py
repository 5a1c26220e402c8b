"""Changes that would make a pending gang schedulable.

`proposals.find_proposals` is the entry point; `change` has the values and their texts, `nodes` and
`release` search nodes to add and pods to evict, `contention` finds other pending gangs that would
take the capacity first.
"""
