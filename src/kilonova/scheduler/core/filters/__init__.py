"""Which nodes are feasible for a shape, how many of its pods fit on each, and why others are
rejected.

`feasibility.FeasibilityCache` is the entry point. It combines the node filters (what never changes
with usage) with the free capacity of each node, and caches the result by shape. `inter_pod_rules`
are the filters that depend on other pods: affinity, anti-affinity and topology spread.
"""
