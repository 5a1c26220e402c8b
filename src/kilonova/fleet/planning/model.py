"""The input and the output of a pass."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from kilonova.api.fleet import Cluster, ClusterStatus
from kilonova.api.inference_engine import (
    Deployment,
    DeploymentStatus,
    Release,
    ReleaseStatus,
)
from kilonova.fleet.documents import DesiredDeployment, Observed

ObjectKey = tuple[str, str]
"""Namespace and name."""

ObjectKind = Literal["Cluster", "Deployment", "Release"]


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """Times in seconds."""

    suspect_after: float = 40.0
    """How long a member may not report before it is suspect."""
    failover_after: float = 300.0
    """After how long a member without instances is lost; deployments have their own time."""
    probe_timeout: float = 15.0
    """How long a new deployment waits for all members to report what fits."""
    forget_losses_after: float = 3600.0
    """How long a member must be reachable before former losses no longer count."""
    history_limit: int = 20


@dataclass(frozen=True, slots=True)
class ClusterInput:
    """A registered member."""

    cluster: Cluster
    """With the status of the previous pass."""
    observed: Observed | None = None
    """Its last report."""
    desired: tuple[DesiredDeployment, ...] = ()
    """What it was assigned last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetInput:
    """Everything that a pass depends on."""

    clusters: Sequence[ClusterInput]
    deployments: Sequence[Deployment]
    """With the statuses of the previous pass."""
    releases: Mapping[ObjectKey, Release]
    now: datetime
    observing_since: datetime
    """Since when the manager has read the store without interruption: a member cannot be found
    silent before."""
    calm_since: datetime | None = None
    """`FleetPlan.calm_since` of the previous pass of this manager."""
    settings: PlanSettings = field(default_factory=PlanSettings)


@dataclass(frozen=True, slots=True)
class FleetEvent:
    """An event to record on an object of the hub."""

    kind: ObjectKind
    namespace: str
    name: str
    reason: str
    message: str
    is_warning: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """An entry of the journal."""

    what: str
    why: str
    cluster: str = ""
    object: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """What to write."""

    clusters: Mapping[str, ClusterStatus]
    deployments: Mapping[ObjectKey, DeploymentStatus]
    releases: Mapping[ObjectKey, ReleaseStatus]
    desired: Mapping[str, tuple[DesiredDeployment, ...]]
    """By cluster, all that it is to run."""
    events: tuple[FleetEvent, ...] = ()
    decisions: tuple[Decision, ...] = ()
    frozen: bool = False
    calm_since: datetime
    """When the fleet was last frozen, or the observation began."""
