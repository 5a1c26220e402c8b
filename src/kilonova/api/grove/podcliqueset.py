"""PodCliqueSet: the object that users write."""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from kilonova.api.grove.common import (
    AutoScaling,
    ClaimSpec,
    CountOrZero,
    Duration,
    Int32,
    LastError,
    NonNegativeInt,
    Replicas,
    ReplicasOrOne,
    RollingUpdate,
    Scope,
)
from kilonova.api.grove.podclique import PodCliqueSpec
from kilonova.api.grove.topology import SetTopologyConstraint, TopologyConstraint
from kilonova.api.meta import Condition, Metadata
from kilonova.api.podgang import Phase
from kilonova.api.times import Time
from kilonova.api.validation_rules import ValidationRule

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
    """Replace all pods of a replica at once, so that different versions never run together."""


class UpdateStrategy(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How a change of the template is rolled out to the pods."""

    type: Annotated[StrategyType, Meta(extra={"default": "RollingRecreate"})] = "RollingRecreate"
    """RollingRecreate replaces outdated pods, replica by replica; OnDelete replaces a pod when it
    is deleted."""
    rolling_update: SetRollingUpdate | None = None


class HeadlessServiceConfig(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The headless Service under which the pods of a replica find each other."""

    publish_not_ready_addresses: Annotated[
        bool, Meta(extra={"default": True, "required": True})
    ] = True
    """Whether DNS publishes pods that are not ready."""


class ResourceClaimTemplate(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A template for resource claims, which `resourceSharing` refers to."""

    name: str
    """The name that resourceSharing refers to."""
    template_spec: ClaimSpec
    """The claim; it must request at least one device."""


class CliqueFilter(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Which cliques share a claim."""

    child_clique_names: tuple[str, ...] = ()
    """Only these cliques."""


class ChildFilter(CliqueFilter, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Which cliques and scaling groups share a claim."""

    child_scaling_group_names: tuple[str, ...] = ()
    """Only these scaling groups."""


class ResourceSharing(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A resource claim that pods share."""

    name: str
    """The name of a template of this set, or of a ResourceClaimTemplate."""
    scope: Scope
    """One claim for all replicas together, or one per replica."""
    namespace: str = ""
    """The namespace of the ResourceClaimTemplate, if it is another one."""


class SetResourceSharing(ResourceSharing, frozen=True, gc=False, omit_defaults=True):
    """A resource claim that the pods of a set share."""

    filter: ChildFilter | None = None


class GroupResourceSharing(ResourceSharing, frozen=True, gc=False, omit_defaults=True):
    """A resource claim that the pods of a scaling group share."""

    filter: CliqueFilter | None = None


class CliqueTemplate(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A role in every replica of the set."""

    name: str
    """The name, which becomes part of the names of its PodCliques and pods."""
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
    """Cliques that are scaled together, in every replica of the set."""

    name: str
    """The name, which becomes part of the names of its PodCliqueScalingGroups."""
    clique_names: tuple[str, ...]
    """The cliques that are scaled together; a clique is in at most one group."""
    annotations: dict[str, str] = {}
    """Annotations of its PodCliqueScalingGroups."""
    replicas: ReplicasOrOne = 1
    """The initial number of replicas of the group; changed through /scale once it exists."""
    min_available: ReplicasOrOne = 1
    """The number of replicas that are scheduled together with the rest of the set's replica."""
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
    """Whether cliques start in any order, in the order in which they are listed, or as startsAfter
    specifies."""
    pod_clique_scaling_groups: tuple[ScalingGroupTemplate, ...] = ()
    priority_class_name: str = ""
    """The priority class of the gangs and their pods."""
    headless_service_config: HeadlessServiceConfig | None = None
    termination_delay: Duration | None = None
    """How long a gang may be below its minimum before all of its pods are restarted. Defaults to
    4h."""
    topology_constraint: SetTopologyConstraint | None = None
    resource_claim_templates: tuple[ResourceClaimTemplate, ...] = ()
    resource_sharing: tuple[SetResourceSharing, ...] = ()
    backoff_limit: NonNegativeInt | None = None
    """How often pods that are not restarted in place may fail before the set fails. Defaults to
    6."""
    ttl_seconds_after_finished: NonNegativeInt | None = None
    """The set and its objects are deleted this many seconds after it has completed or failed."""


class PodCliqueSetSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The template and the number of its replicas."""

    template: Template
    replicas: Annotated[Replicas, Meta(extra={"default": 0})] = 0
    """The number of replicas of the template."""
    update_strategy: UpdateStrategy | None = None


class PodGangSummary(msgspec.Struct, frozen=True, gc=False):
    """The state of one gang."""

    name: str
    """The name of the PodGang."""
    phase: Phase
    """The phase of the PodGang."""
    conditions: tuple[Condition, ...] = ()


class UpdatingReplica(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A replica that is being updated."""

    replica_index: Int32
    """The index of the replica."""
    update_started_at: Time | None = None
    """When its update started."""
    update_ended_at: Time | None = None
    """When its update was complete."""


class SetUpdateProgress(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The progress of an update."""

    update_started_at: Time | None = None
    """When the update started."""
    update_ended_at: Time | None = None
    """When the update was complete."""
    available_replicas_at_start: Int32 | None = None
    """The replicas that were available when the update started: the update preserves their number
    within maxUnavailable, and does not wait for other replicas, which could not be scheduled."""
    updated_pod_cliques_count: CountOrZero = 0
    """The number of cliques outside of groups that are up to date."""
    total_pod_cliques_count: CountOrZero = 0
    """The number of cliques outside of groups."""
    updated_pod_clique_scaling_groups_count: CountOrZero = 0
    """The number of groups that are up to date."""
    total_pod_clique_scaling_groups_count: CountOrZero = 0
    """Groups."""
    currently_updating: tuple[UpdatingReplica, ...] = ()


class PodCliqueSetStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The observed state of the set."""

    updated_replicas: CountOrZero = 0
    """The number of replicas whose pods were all created from the newest template."""
    available_replicas: CountOrZero = 0
    """The number of replicas in which every clique and group has its minimum."""
    replicas: Int32 = 0
    """The desired number of replicas, which autoscalers divide by: replicas that are still being
    created must not count as missing."""
    observed_generation: int | None = None
    """The generation that this status describes."""
    conditions: tuple[Condition, ...] = ()
    last_errors: tuple[LastError, ...] = ()
    hpa_pod_selector: str = ""
    """The label selector of the pods of the set."""
    pod_gang_statuses: tuple[PodGangSummary, ...] = ()
    """The state of each gang; without conditions if there are more than 50 gangs."""
    current_generation_hash: str = ""
    """The newest revision of the templates."""
    update_progress: SetUpdateProgress | None = None


def _no_pack_domain(expression: str, field: str) -> ValidationRule:
    return ValidationRule(
        f"oldSelf.hasValue() || {expression}",
        "packDomain is deprecated and cannot be used on new workloads; use pack.required",
        reason="FieldValueForbidden",
        field_path=f".spec.template.{field}",
        optional_old_self=True,
    )


class PodCliqueSet(msgspec.Struct, gc=False):
    """A complete AI system: its roles, the number of pods of each, and their startup order,
    scheduled as a gang."""

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
