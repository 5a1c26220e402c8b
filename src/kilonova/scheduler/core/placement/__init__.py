"""Places a gang on free capacity, all or nothing.

`placer.Placer` is the entry point. A `PlacementAttempt` places the parts of a gang greedily
(`attempt`), pods that influence each other one by one (`sequential`), equal pods at once
(`distribution`). Where that finds no placement although one may exist, a complete search follows
(`backtracking_search`), limited by a search budget.
"""
