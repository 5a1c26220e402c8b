"""The label by which nodes of the cluster of `kilonova up` say what they are."""

NODE_KIND_LABEL = "kilonova.dev/node-kind"
PROCESS_NODE = "process"
"""This machine, which runs pods as processes."""
SIMULATED_NODE = "sim"
"""A node whose pods run nothing."""

__all__ = ["NODE_KIND_LABEL", "PROCESS_NODE", "SIMULATED_NODE"]
