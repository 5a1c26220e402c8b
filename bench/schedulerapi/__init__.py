"""Placement end to end, on a genuine API server: ours, kube-scheduler, and plain bindings.

Each of the three has a server of its own, on an empty folder, with the same nodes and pods, all
made before it begins. Nodes are objects without kubelets. What counts is the time from the first
pod that has a node to the last, as somebody sees it who watches pods.
"""

from bench.schedulerapi.command import scheduler_api

__all__ = ["scheduler_api"]
