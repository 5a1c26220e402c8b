"""`grove.io/v1alpha1`: sets of pod cliques.

- A **PodCliqueSet** is what people write: a template, and how many **replicas** of it.
- A **PodClique** is the pods of one role in one replica.
- A **PodCliqueScalingGroup** is several cliques of a replica that are scaled as one.
- A **ClusterTopologyBinding** gives names to the levels of a cluster's topology.

Types here are read from the API, and the definitions of the kinds are generated from them
(`tools/crds`): a docstring below a field is what `kubectl explain` tells of it. Names, labels and
annotations are in `names`.
"""

from kilonova.api.grove.podclique import PodClique, PodCliqueSpec, PodCliqueStatus
from kilonova.api.grove.podcliqueset import (
    CliqueTemplate,
    PodCliqueSet,
    PodCliqueSetStatus,
    ScalingGroupTemplate,
)
from kilonova.api.grove.scalinggroup import PodCliqueScalingGroup, PodCliqueScalingGroupStatus
from kilonova.api.grove.topology import ClusterTopologyBinding

GROUP = "grove.io"
VERSION = "v1alpha1"

__all__ = [
    "GROUP",
    "VERSION",
    "CliqueTemplate",
    "ClusterTopologyBinding",
    "PodClique",
    "PodCliqueScalingGroup",
    "PodCliqueScalingGroupStatus",
    "PodCliqueSet",
    "PodCliqueSetStatus",
    "PodCliqueSpec",
    "PodCliqueStatus",
    "ScalingGroupTemplate",
]
