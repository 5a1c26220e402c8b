"""Scores of feasible nodes: weighted score plugins, each from 0 to 100.

`plugins.default_scoring` is the entry point. `packing_fit` scores by **fragmentation**: how much of
the free GPU capacity remains usable for the **demand**, the distribution of requests learned from
arriving pods. `preferences` scores soft constraints.
"""
