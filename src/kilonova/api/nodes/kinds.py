"""The label with the type of a node of `kilonova up`."""

NODE_KIND_LABEL = "kilonova.dev/node-kind"
PROCESS_NODE = "process"
"""This machine, which runs pods as processes."""
SIMULATED_NODE = "sim"
"""A node whose pods run nothing."""

__all__ = ["NODE_KIND_LABEL", "PROCESS_NODE", "SIMULATED_NODE"]
