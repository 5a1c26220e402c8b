"""Nodes that fall silent, and what becomes of their pods.

A node is *silent* when its Lease and its Ready condition have not been renewed for a while: then
its conditions become Unknown and its pods are no longer ready. Taints follow conditions. Taints
with the effect NoExecute, which end pods, are given sparingly: at a rate that depends on how much
of the node's *zone* is in trouble, and not at all when every zone is, for then it is more likely
that the controller cannot hear than that all nodes have died.
"""

from kilonova.local.controllers.nodes.eviction import taint_eviction_parts
from kilonova.local.controllers.nodes.lifecycle import node_lifecycle_parts

__all__ = ["node_lifecycle_parts", "taint_eviction_parts"]
