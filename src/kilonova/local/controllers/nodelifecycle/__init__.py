"""Node lifecycle: node health, taints, and eviction of pods from failed nodes.

A node is *unreachable* when its Lease and its Ready condition have not been renewed for the grace
period: its conditions become Unknown and its pods not ready. Taints follow from conditions.
NoExecute taints, which evict pods, are rate limited: by the *state of the zone* (how many of its
nodes are not ready), and not at all when all zones are disrupted, for then it is more likely that
the controller is disconnected than that all nodes have failed.
"""

from kilonova.local.controllers.nodelifecycle.controller import node_lifecycle_controllers
from kilonova.local.controllers.nodelifecycle.taint_eviction import taint_eviction_controllers

__all__ = ["node_lifecycle_controllers", "taint_eviction_controllers"]
