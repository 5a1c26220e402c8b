"""`kgwe.nvidia.io/v1`: GPU workloads, MIG strategies and GPU budgets, as KGWE defines them.

- A **GPUWorkload** asks for a number of GPUs, or MIG instances, with what they must be and how they
  must be connected. It becomes a gang of equal pods.
- A **MIGStrategy** specifies which MIG instances the GPUs of some nodes should have in stock.
- A **GPUBudget** limits what the GPUs of a namespace, team or project may cost.

The names on the wire are KGWE's. Its definitions and its Go types differ; here are the fields of
both.
"""

from kilonova.api.kgwe.constraints import (
    NodeAffinity,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    SchedulingConstraints,
    WeightedNodeSelectorTerm,
    WorkloadReference,
)
from kilonova.api.kgwe.gpubudget import GPUBudget, GPUBudgetSpec, GPUBudgetStatus
from kilonova.api.kgwe.gpuworkload import (
    GROUP,
    VERSION,
    AllocatedMigInstance,
    DistributedConfig,
    GPUWorkload,
    GPUWorkloadSpec,
    GPUWorkloadStatus,
    ScoreParts,
)
from kilonova.api.kgwe.migstrategy import (
    GpuSelector,
    MIGStrategy,
    MIGStrategySpec,
    MIGStrategyStatus,
)
from kilonova.api.kgwe.requirements import GpuRequirements, MigRequirements, TopologyRequirements

__all__ = [
    "GROUP",
    "VERSION",
    "AllocatedMigInstance",
    "DistributedConfig",
    "GPUBudget",
    "GPUBudgetSpec",
    "GPUBudgetStatus",
    "GPUWorkload",
    "GPUWorkloadSpec",
    "GPUWorkloadStatus",
    "GpuRequirements",
    "GpuSelector",
    "MIGStrategy",
    "MIGStrategySpec",
    "MIGStrategyStatus",
    "MigRequirements",
    "NodeAffinity",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "SchedulingConstraints",
    "ScoreParts",
    "TopologyRequirements",
    "WeightedNodeSelectorTerm",
    "WorkloadReference",
]
