"""Labels of nodes with their location."""

REGION = "topology.kubernetes.io/region"
ZONE = "topology.kubernetes.io/zone"
BLOCK = "kilonova.dev/block"
RACK = "kilonova.dev/rack"

TOPOLOGY_LEVELS = (REGION, ZONE, BLOCK, RACK)
"""The levels of a cluster without a ClusterTopologyBinding, broadest first. A level whose label no
node has does not count."""
