"""PodCliqueSet: what people write."""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from kilonova.api.grove.parts import (
    AutoScaling,
    ClaimSpec,
    Count,
    Counted,
    Duration,
    LastError,
    Natural,
    One,
    Replicas,
    RollingUpdate,
    Scope,
)
from kilonova.api.grove.podclique import PodCliqueSpec
from kilonova.api.grove.topology import SetTopologyConstraint, TopologyConstraint
from kilonova.api.meta import Condition, Metadata
from kilonova.api.podgang import Phase
from kilonova.api.rules import Rule
from kilonova.api.times import Time

StartupType = Literal[
    "CliqueStartupTypeAnyOrder", "CliqueStartupTypeInOrder", "CliqueStartupTypeExplicit"
]
ANY_ORDER: StartupType = "CliqueStartupTypeAnyOrder"
IN_ORDER: StartupType = "CliqueStartupTypeInOrder"
EXPLICIT: StartupType = "CliqueStartupTypeExplicit"

StrategyType = Literal["RollingRecreate", "OnDelete"]


class SetRollingUpdate(RollingUpdate, frozen=True, gc=False, rename="camel"):
    """How fast outdated replicas of a set are replaced."""

    coherent: bool = False
    """All pods of a replica are replaced at once, so that no two versions ever work together."""


class UpdateStrategy(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How a change of the template reaches the pods."""

    type: Annotated[StrategyType, Meta(extra={"default": "RollingRecreate"})] = "RollingRecreate"
    """RollingRecreate replaces outdated pods, replica by replica; OnDelete waits for somebody to
    delete them."""
    rolling_update: SetRollingUpdate | None = None


class HeadlessServiceConfig(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The Service under which pods of a replica find each other."""

    publish_not_ready_addresses: Annotated[
        bool, Meta(extra={"default": True, "required": True})
    ] = True
    """Whether pods are found before they are ready."""


class ResourceClaimTemplate(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A claim of devices, for `resourceSharing` to name."""

    name: str
    """What resourceSharing calls it."""
    template_spec: ClaimSpec
    """The claim; at least one device must be asked for."""


class CliqueFilter(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Which cliques share a claim."""

    child_clique_names: tuple[str, ...] = ()
    """Only these cliques."""


class ChildFilter(CliqueFilter, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Which cliques and scaling groups share a claim."""

    child_scaling_group_names: tuple[str, ...] = ()
    """Only these scaling groups."""


class ResourceSharing(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A claim of devices that pods share."""

    name: str
    """A template of this set, or a ResourceClaimTemplate."""
    scope: Scope
    """One claim for all replicas together, or one for each."""
    namespace: str = ""
    """Where the ResourceClaimTemplate is, if elsewhere."""


class SetResourceSharing(ResourceSharing, frozen=True, gc=False, omit_defaults=True):
    """A claim of devices that pods of a set share."""

    filter: ChildFilter | None = None


class GroupResourceSharing(ResourceSharing, frozen=True, gc=False, omit_defaults=True):
    """A claim of devices that pods of a scaling group share."""

    filter: CliqueFilter | None = None


class CliqueTemplate(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A role in every replica of the set."""

    name: str
    """Part of the names of its PodCliques and pods."""
    spec: PodCliqueSpec
    labels: dict[str, str] = {}
    """Labels of its PodCliques and pods."""
    annotations: dict[str, str] = {}
    """Annotations of its PodCliques and pods."""
    topology_constraint: TopologyConstraint | None = None
    resource_sharing: tuple[ResourceSharing, ...] = ()

    @property
    def role_name(self) -> str:
        """The role of its pods; the name of the clique where the set has not been defaulted."""
        return self.spec.role_name or self.name


class ScalingGroupTemplate(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Cliques that are scaled as one, in every replica of the set."""

    name: str
    """Part of the names of its PodCliqueScalingGroups."""
    clique_names: tuple[str, ...]
    """The cliques that are scaled together; a clique is in one group at most."""
    annotations: dict[str, str] = {}
    """Annotations of its PodCliqueScalingGroups."""
    replicas: One = 1
    """How many replicas a new group has; changed through /scale once it is there."""
    min_available: One = 1
    """So many replicas are placed together with the rest of the set's replica."""
    scale_config: AutoScaling | None = None
    resource_sharing: tuple[GroupResourceSharing, ...] = ()
    topology_constraint: TopologyConstraint | None = None
    rolling_update: RollingUpdate | None = None


class Template(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A replica of the set."""

    cliques: Annotated[tuple[CliqueTemplate, ...], Meta(extra={"list": "map", "keys": ["name"]})]
    clique_startup_type: Annotated[
        StartupType, Meta(extra={"default": "CliqueStartupTypeAnyOrder"})
    ] = ANY_ORDER
    """Whether cliques start in any order, one after the other as they are listed, or as their
    startsAfter says."""
    pod_clique_scaling_groups: tuple[ScalingGroupTemplate, ...] = ()
    priority_class_name: str = ""
    """Priority of the gangs and of their pods."""
    headless_service_config: HeadlessServiceConfig | None = None
    termination_delay: Duration | None = None
    """How long a gang may lack pods that it needs before all of it is started anew; 4h."""
    topology_constraint: SetTopologyConstraint | None = None
    resource_claim_templates: tuple[ResourceClaimTemplate, ...] = ()
    resource_sharing: tuple[SetResourceSharing, ...] = ()
    backoff_limit: Natural | None = None
    """How often pods that are not restarted in place may fail before the set has failed; 6."""
    ttl_seconds_after_finished: Natural | None = None
    """The set is deleted, with what is left of it, so long after it has completed or failed."""


class PodCliqueSetSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How many replicas of which template."""

    template: Template
    replicas: Annotated[Replicas, Meta(extra={"default": 0})] = 0
    """How many whole systems."""
    update_strategy: UpdateStrategy | None = None


class PodGangSummary(msgspec.Struct, frozen=True, gc=False):
    """How far one gang is."""

    name: str
    """Name of the PodGang."""
    phase: Phase
    """Its phase."""
    conditions: tuple[Condition, ...] = ()


class UpdatingReplica(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A replica whose turn has come."""

    replica_index: Count
    """Number of the replica."""
    update_started_at: Time | None = None
    """When its turn came."""
    update_ended_at: Time | None = None
    """When it was up to date."""


class SetUpdateProgress(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How far an update is."""

    update_started_at: Time | None = None
    """When the newest template was seen."""
    update_ended_at: Time | None = None
    """When the last replica was up to date."""
    available_replicas_at_start: Count | None = None
    """Replicas that were available when the update began: it is not to leave much fewer, and does
    not wait for others that have no room."""
    updated_pod_cliques_count: Counted = 0
    """Cliques outside of groups that are up to date."""
    total_pod_cliques_count: Counted = 0
    """Cliques outside of groups."""
    updated_pod_clique_scaling_groups_count: Counted = 0
    """Groups that are up to date."""
    total_pod_clique_scaling_groups_count: Counted = 0
    """Groups."""
    currently_updating: tuple[UpdatingReplica, ...] = ()


class PodCliqueSetStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How the set is."""

    updated_replicas: Counted = 0
    """Replicas whose pods are all made from the newest template."""
    available_replicas: Counted = 0
    """Replicas all of whose cliques and groups have what they must have."""
    replicas: Count = 0
    """Replicas that are asked for: autoscalers divide by them, and are not to take some that are
    still being made for a shortage."""
    observed_generation: int | None = None
    """The generation of the object that this status is about."""
    conditions: tuple[Condition, ...] = ()
    last_errors: tuple[LastError, ...] = ()
    hpa_pod_selector: str = ""
    """Finds the pods of the set."""
    pod_gang_statuses: tuple[PodGangSummary, ...] = ()
    """How far each gang is; without its conditions if there are more than 50 gangs."""
    current_generation_hash: str = ""
    """The newest revision of the templates."""
    update_progress: SetUpdateProgress | None = None


def _no_pack_domain(expression: str, field: str) -> Rule:
    return Rule(
        f"oldSelf.hasValue() || {expression}",
        "packDomain is deprecated and cannot be used on new workloads; use pack.required",
        reason="FieldValueForbidden",
        field_path=f".spec.template.{field}",
        optional_old_self=True,
    )


class PodCliqueSet(msgspec.Struct, gc=False):
    """A whole AI system: roles, how many of each, in which order, together or not at all."""

    RULES: ClassVar = (
        _no_pack_domain(
            "!self.spec.template.?topologyConstraint.?packDomain.hasValue()",
            "topologyConstraint.packDomain",
        ),
        _no_pack_domain(
            "self.spec.template.cliques"
            ".all(each, !each.?topologyConstraint.?packDomain.hasValue())",
            "cliques",
        ),
        _no_pack_domain(
            "!has(self.spec.template.podCliqueScalingGroups) || "
            "self.spec.template.podCliqueScalingGroups"
            ".all(each, !each.?topologyConstraint.?packDomain.hasValue())",
            "podCliqueScalingGroups",
        ),
    )

    metadata: Metadata
    spec: PodCliqueSetSpec
    status: PodCliqueSetStatus = PodCliqueSetStatus()
