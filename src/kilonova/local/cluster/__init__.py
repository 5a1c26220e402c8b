"""The embedded cluster: storage, API server, controllers and nodes in one process.

`EmbeddedCluster` is the entry point. `apiserver` assembles the API server, `nodes` the simulated
nodes and the process node.
"""

from kilonova.local.cluster.embedded_cluster import EmbeddedCluster
from kilonova.local.cluster.settings import ClusterSettings

__all__ = ["ClusterSettings", "EmbeddedCluster"]
