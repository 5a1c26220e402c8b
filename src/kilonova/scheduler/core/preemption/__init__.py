"""Preemption and reclaim: which victims a gang may evict, what they cost, and which are selected.

`victim_selection.VictimSelector` is the entry point and the place where victims are chosen. An
**eviction unit** is what is evicted together: a whole gang, or one surplus pod. `rules` decide
which gangs are protected from a **preemptor**; an `Entitlement` adds queue limits, disruption
budgets and the units already taken; `victim_candidates` lists units by cost; `trial` finds the
selected units that need not be evicted after all.
"""
