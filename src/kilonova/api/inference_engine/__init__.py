"""`inference-engine.groq.io/v1`: instances of models, in one cluster and in all.

- An **InferenceEngineInstance** is one running copy of a model: agents on accelerators and a
  conductor, scheduled together as one PodGang.
- An **InferenceEngineDeployment** is a number of equal instances in one cluster.
- A **Release** is an immutable bundle of what an instance runs.
- A **Deployment** specifies which release runs in which clusters. It is another kind than the
  Deployment of `apps`; its short name is `gd`.

The names on the wire are Supernova's and Nebula's.
"""

from kilonova.api.inference_engine.global_deployment import (
    ClusterDeploymentStatus,
    ClusterSelector,
    Deployment,
    DeploymentRevision,
    DeploymentSpec,
    DeploymentStatus,
    Failover,
    Placement,
    Rollout,
    SpreadConstraint,
    Wave,
    WaveStatus,
)
from kilonova.api.inference_engine.instance import (
    AgentPlacement,
    InferenceEngineInstance,
    InstancePhase,
    InstanceStatus,
    RepairCounts,
)
from kilonova.api.inference_engine.instance_deployment import (
    InferenceEngineDeployment,
    InferenceEngineDeploymentSpec,
    InferenceEngineDeploymentStatus,
    Revision,
    UpdateStrategy,
)
from kilonova.api.inference_engine.release import ClusterRelease, Release, ReleaseStatus
from kilonova.api.inference_engine.templates import (
    DEFAULT_ACCELERATOR,
    GROUP,
    VERSION,
    Accelerator,
    Allocation,
    EngineSpec,
    PodTemplate,
    PodTemplateMetadata,
    Repair,
)

__all__ = [
    "DEFAULT_ACCELERATOR",
    "GROUP",
    "VERSION",
    "Accelerator",
    "AgentPlacement",
    "Allocation",
    "ClusterDeploymentStatus",
    "ClusterRelease",
    "ClusterSelector",
    "Deployment",
    "DeploymentRevision",
    "DeploymentSpec",
    "DeploymentStatus",
    "EngineSpec",
    "Failover",
    "InferenceEngineDeployment",
    "InferenceEngineDeploymentSpec",
    "InferenceEngineDeploymentStatus",
    "InferenceEngineInstance",
    "InstancePhase",
    "InstanceStatus",
    "Placement",
    "PodTemplate",
    "PodTemplateMetadata",
    "Release",
    "ReleaseStatus",
    "Repair",
    "RepairCounts",
    "Revision",
    "Rollout",
    "SpreadConstraint",
    "UpdateStrategy",
    "Wave",
    "WaveStatus",
]
