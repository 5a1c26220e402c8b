"""Deployment: which release runs in which clusters, and how it is rolled out."""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from kilonova.api.inference_engine.release import Verdict
from kilonova.api.inference_engine.templates import Count, CountOrZero, RequiredCountOrZero
from kilonova.api.meta import Condition, Metadata
from kilonova.api.scheduling import Duration, Name
from kilonova.api.times import Time
from kilonova.api.validation_rules import ValidationRule

WavePhase = Literal["Pending", "RollingOut", "Baking", "Done", "Failed"]
DEFAULT_REGION_LABEL = "topology.kubernetes.io/region"


class ClusterSelector(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Clusters by their labels, and by `region`."""

    match_labels: dict[str, str] = {}
    """Labels of the Cluster objects."""
    regions: tuple[str, ...] = ()
    """Any of these regions."""


class Placement(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """How many instances some clusters have."""

    RULES: ClassVar = (
        ValidationRule(
            "has(self.cluster) != has(self.clusterSelector)",
            "set either cluster or clusterSelector",
        ),
        ValidationRule(
            "!has(self.max) || !has(self.min) || self.min <= self.max",
            "min must not be greater than max",
            field_path=".min",
        ),
    )

    cluster: Name | None = None
    """The name of a cluster."""
    cluster_selector: ClusterSelector | None = None
    """Which clusters, each by itself."""
    min: Count = 0
    """The least number of instances in each of the clusters."""
    max: Count | None = None
    """The greatest number of instances in each of the clusters. Defaults to no limit."""
    weight: Annotated[Count, Meta(extra={"default": 1})] = 1
    """The share of each of the clusters in what is beyond the minima."""


class SpreadConstraint(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """How instances are spread over failure domains of clusters."""

    by: Annotated[str, Meta(extra={"default": "region"})] = "region"
    """`region`, `cluster`, or the key of a label of Cluster objects."""
    max_skew: Annotated[int, Meta(ge=1, extra={"format": "int32", "default": 1})] = 1
    """The greatest difference between two domains that have capacity for more."""


class Wave(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Clusters that get a new release at the same time."""

    name: Name
    """The name of the wave."""
    clusters: tuple[str, ...] = ()
    """The names of its clusters."""
    cluster_selector: ClusterSelector | None = None
    """Further clusters, by label."""
    bake_time: Duration | None = None
    """How long the wave is observed before the next one starts. Defaults to that of the rollout."""


class Rollout(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """How a new release reaches the clusters."""

    waves: tuple[Wave, ...] = ()
    """The waves, in their order; clusters that no wave names come last, together."""
    bake_time: Annotated[Duration, Meta(extra={"default": "5m"})] = "5m"
    """How long a wave is observed before the next one starts."""
    max_failing: Annotated[Count, Meta(extra={"default": 0})] = 0
    """How many instances of the new release may fail in a wave before the rollout stops."""
    auto_rollback: Annotated[bool, Meta(extra={"default": True})] = True
    """Whether clusters go back to their last good release when the rollout stops."""
    progress_deadline: Annotated[Duration, Meta(extra={"default": "30m"})] = "30m"
    """After this time a wave that is not ready has failed."""
    paused: Annotated[bool, Meta(extra={"default": False})] = False
    """Whether no further wave starts."""


class Failover(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """What happens when a cluster is lost, and when it returns."""

    after: Annotated[Duration, Meta(extra={"default": "5m"})] = "5m"
    """How long a cluster is unreachable before its instances are placed elsewhere."""
    failback_after: Annotated[Duration, Meta(extra={"default": "10m"})] = "10m"
    """How long a cluster must be reachable again before it gets instances back."""
    max_concurrent: Annotated[int, Meta(ge=1, extra={"format": "int32", "default": 5})] = 5
    """How many instances are moved at the same time, in failover and failback."""


class DeploymentSpec(msgspec.Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    """A release, and where it runs."""

    RULES: ClassVar = (
        ValidationRule(
            "has(self.replicas) || (has(self.placements) && size(self.placements) > 0)",
            "set replicas, or placements with a minimum",
            field_path=".replicas",
            reason="FieldValueRequired",
        ),
    )

    release: Name
    """The name of a Release of the same namespace."""
    replicas: Count | None = None
    """The number of instances in all clusters together. Defaults to the sum of the minima."""
    placements: Annotated[tuple[Placement, ...], Meta(max_length=256)] = ()
    """The clusters that may have instances. Defaults to all clusters."""
    spread: SpreadConstraint | None = None
    rollout: Rollout = Rollout()
    mask: Annotated[tuple[str, ...], Meta(max_length=256)] = ()
    """Releases that must not run. Clusters that run one go to the newest release of the history
    that is not masked at once, without waves."""
    failover: Failover = Failover()


class ClusterDeploymentStatus(
    msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True
):
    """The state of a deployment in one cluster."""

    cluster: str
    """The name of the cluster."""
    desired: RequiredCountOrZero = 0
    """The number of instances that it is to have."""
    observed: RequiredCountOrZero = 0
    """The number of instances that it had when it was last seen."""
    ready: RequiredCountOrZero = 0
    """The number of ready ones."""
    unallocatable: CountOrZero = 0
    """The number that it cannot place."""
    additional: Count | None = None
    """How many more it could place."""
    release: str = ""
    """The release that it is to run."""
    observed_release: str = ""
    """The release that all its instances run."""
    last_good_release: str = ""
    """The last release that was ready in it for the whole bake time."""
    reachable: Annotated[bool, Meta(extra={"default": True, "required": True})] = True
    """Whether it is reachable; if not, the numbers are those that were last observed."""
    last_seen: Time | None = None
    """When it last reported."""
    reason: str = ""
    """Why it has this number, or is not reachable."""


class WaveStatus(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The state of a wave."""

    name: str
    """The name of the wave."""
    phase: Annotated[WavePhase, Meta(extra={"default": "Pending"})] = "Pending"
    """RollingOut until its clusters run the release, Baking while they are observed."""
    clusters: tuple[str, ...] = ()
    """Its clusters."""
    started: Time | None = None
    """When it started."""
    ready_since: Time | None = None
    """When all its clusters were ready."""
    message: str = ""
    """What it waits for, or why it failed."""


class DeploymentRevision(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A release that was rolled out."""

    revision: int
    """Its number; the newest has the highest."""
    release: str
    """The name of the release."""
    since: Time | None = None
    """When its rollout started."""
    health: Annotated[Verdict, Meta(extra={"default": "Unknown"})] = "Unknown"
    """Healthy if its rollout completed, Failing if it was stopped."""


class DeploymentStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The state in all clusters."""

    observed_generation: int | None = None
    """The generation that this status describes."""
    desired: RequiredCountOrZero = 0
    """The number of instances that are to run."""
    observed: RequiredCountOrZero = 0
    """The number of instances; of a cluster that is not reachable, those last observed, until they
    are placed elsewhere."""
    ready: RequiredCountOrZero = 0
    """The number of ready ones."""
    unallocatable: RequiredCountOrZero = 0
    """The number for which no cluster has capacity."""
    release: str = ""
    """The release that is rolled out now."""
    current_wave: str = ""
    """The name of the wave that is rolled out or observed."""
    waves: tuple[WaveStatus, ...] = ()
    """The waves of the rollout."""
    clusters: tuple[ClusterDeploymentStatus, ...] = ()
    """The state of each cluster, by name."""
    relocated: CountOrZero = 0
    """How many instances were moved to another cluster."""
    history: tuple[DeploymentRevision, ...] = ()
    """The releases that were rolled out, the newest first."""
    conditions: tuple[Condition, ...] = ()
    """Available, Progressing, Paused, Allocated."""


class Deployment(msgspec.Struct, gc=False):
    """Which release runs in which clusters."""

    metadata: Metadata
    spec: DeploymentSpec
    status: DeploymentStatus = DeploymentStatus()
