"""The controllers of MIGStrategies: one assigns strategies to nodes, the other reports on them.

`assignment` decides which strategy a node gets, `status` describes a strategy; both are pure. The
agent of a node reads its strategy from the annotation (`kilonova.api.gpu.mig_strategy`) and makes
the instances.
"""
