"""Places a gang on free capacity, all or nothing.

`placer.Placer` is the entry point. A `PlacementAttempt` places the parts of a gang greedily
(`attempt`), with its shared claims pinned to rows (`claim_pins`); in a group, equal pods at once
(`group_placer`, `distribution`), pods that influence each other one by one (`sequential`). Where
that finds no placement although one may exist, a complete search follows (`backtracking_search`),
limited by a search budget.
"""
