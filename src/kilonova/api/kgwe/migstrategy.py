"""MIGStrategy: which MIG instances nodes should have in stock."""

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from kilonova.api.kgwe.gpuworkload import AnyObject
from kilonova.api.kgwe.requirements import Architecture
from kilonova.api.meta import Condition, Metadata
from kilonova.api.scheduling import Duration
from kilonova.api.times import Time
from kilonova.api.validation_rules import ValidationRule

SUM_TOLERANCE = 1.01
"""The sum up to which fractions count as 1: they are rounded."""

Fraction = Annotated[float, Meta(ge=0, le=1)]
"""0.7 is 70 %."""


class GpuSelector(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Which GPUs of the nodes the strategy is for."""

    model: Annotated[str, Meta(max_length=253)] = ""
    """The model, such as H100; several are separated by commas."""
    min_memory_gb: Annotated[int, Meta(ge=1, le=4096)] | None = msgspec.field(
        name="minMemoryGB", default=None
    )
    """The minimum memory, in GB (1,000,000,000 bytes)."""
    architecture: Architecture | None = None
    """The architecture."""
    mig_capable: Annotated[bool, Meta(extra={"default": True})] = True
    """Only true has a meaning: other GPUs cannot be divided."""


class MIGStrategySpec(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The nodes, and the MIG instances that their GPUs should have."""

    RULES: ClassVar = (
        ValidationRule(
            "!has(self.partitionStrategy)",
            "partitionStrategy is not supported: instead of partitionStrategy.preferredProfiles"
            " [{1g.10gb: 70%}] write profileDistribution {1g.10gb: 0.7}, and put"
            " rebalanceInterval and minUtilizationThreshold directly into spec",
            field_path=".partitionStrategy",
        ),
        ValidationRule(
            "!has(self.profileDistribution) || self.profileDistribution"
            ".map(name, self.profileDistribution[name]).sum() <= 1.01",
            "the fractions of profileDistribution must have a sum of at most 1:"
            " write 70 % as 0.7, and lower some of them",
            field_path=".profileDistribution",
        ),
        ValidationRule(
            "!has(self.profileDistribution) || self.profileDistribution.all(name,"
            " name.matches('^[0-9]+g[.][0-9]+gb([+-][a-z]+([.][a-z]+)*)?$'))",
            "the keys of profileDistribution must be MIG profiles, such as 1g.10gb",
            field_path=".profileDistribution",
        ),
        ValidationRule(
            "!has(self.gpuSelector) || !has(self.gpuSelector.migCapable)"
            " || self.gpuSelector.migCapable",
            "GPUs without MIG cannot be divided: set gpuSelector.migCapable to true, or leave it"
            " out",
            field_path=".gpuSelector",
        ),
    )

    node_selector: Annotated[dict[str, str], Meta(max_length=64)] = {}
    """Labels of the nodes. Without any, all nodes with such GPUs."""
    gpu_selector: GpuSelector | None = None
    profile_distribution: Annotated[dict[str, Fraction], Meta(max_length=32)] = {}
    """For each MIG profile its fraction of the capacity of the GPUs: 0.7 is 70 %. What is left of a
    sum of 1 stays free, for whole GPUs or for instances that pods request."""
    allow_dynamic_reconfig: Annotated[bool, Meta(extra={"default": False})] = False
    """Whether instances that no pod uses are replaced by others. Without it, instances are only
    added on free capacity."""
    allow_pod_eviction: Annotated[bool, Meta(extra={"default": False})] = False
    """Whether pods are evicted whose instances would leave more free elsewhere, if that is worth
    their restarts. Needs allowDynamicReconfig; disruption budgets hold."""
    rebalance_interval: Annotated[Duration, Meta(extra={"default": "5m"})] = "5m"
    """The least time between two replacements on a node, and between two evictions of pods."""
    min_utilization_threshold: Annotated[
        float, Meta(ge=0, le=1, extra={"default": 0.3, "format": "double"})
    ] = 0.3
    """Instances are replaced where a smaller part than this of a node's instances is in use."""
    priority: Annotated[int, Meta(extra={"default": 0, "format": "int32"})] = 0
    """Of several strategies for one node, the one with the highest priority counts; of equal ones,
    the first by name."""
    partition_strategy: AnyObject | None = None
    """Not supported: write profileDistribution."""


class MIGStrategyStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The observed state of a strategy."""

    observed_generation: int | None = None
    """The generation that this status describes."""
    applied_nodes: tuple[str, ...] = ()
    """The nodes that the strategy is assigned to, sorted by name."""
    current_distribution: dict[str, float] = {}
    """For each MIG profile, the fraction of the capacity of these nodes' GPUs that its instances
    take."""
    last_rebalance_time: Time | None = None
    """When the instances of these nodes last changed."""
    conditions: tuple[Condition, ...] = ()
    """Ready: the strategy is assigned to nodes, all of which can have its profiles."""


class MIGStrategy(msgspec.Struct, gc=False):
    """The MIG instances that the GPUs of some nodes should have in stock."""

    metadata: Metadata
    spec: MIGStrategySpec = MIGStrategySpec()
    status: MIGStrategyStatus = MIGStrategyStatus()
