"""`grove.io/v1alpha1`: sets of pod cliques.

- A **PodCliqueSet** is what users write: a template, and the number of its **replicas**.
- A **PodClique** has the pods of one role in one replica.
- A **PodCliqueScalingGroup** has several cliques of a replica that are scaled together.
- A **ClusterTopologyBinding** names the levels of a cluster's topology.

Types here are decoded from the API, and the CustomResourceDefinitions are generated from them
(`tools/crds`): the docstring below a field is its text in `kubectl explain`. Names, labels and
annotations are in `names`.
"""

from kilonova.api.grove.podclique import PodClique, PodCliqueSpec, PodCliqueStatus
from kilonova.api.grove.podcliqueset import (
    CliqueTemplate,
    PodCliqueSet,
    PodCliqueSetStatus,
    ScalingGroupTemplate,
)
from kilonova.api.grove.scaling_group import PodCliqueScalingGroup, PodCliqueScalingGroupStatus
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
