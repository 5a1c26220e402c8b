"""InferenceEngineDeployment: equal instances in one cluster, and how they are updated."""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from kilonova.api.grove.common import IntOrPercent
from kilonova.api.inference_engine.templates import Count, EngineSpec, RequiredCountOrZero
from kilonova.api.meta import Condition, Metadata
from kilonova.api.scheduling import Duration
from kilonova.api.times import Time
from kilonova.api.validation_rules import ValidationRule

MAX_INSTANCES = 10_000
"""The maximum of `replicas`. Enforced only by the API."""

StrategyType = Literal["RollingReplace", "Recreate"]


class UpdateStrategy(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """How instances are replaced by those of another release or template."""

    type: Annotated[StrategyType, Meta(extra={"default": "RollingReplace"})] = "RollingReplace"
    """RollingReplace replaces some instances at a time, Recreate all at once."""
    max_unavailable: IntOrPercent | None = None
    """How many instances may be unavailable during an update. Defaults to 1."""
    max_surge: IntOrPercent | None = None
    """How many instances may exist in addition to the desired number. Defaults to 0."""
    min_ready_seconds: Count = 0
    """How long a new instance must be ready before it counts as available."""
    progress_deadline: Annotated[Duration, Meta(extra={"default": "30m"})] = "30m"
    """After this time without progress, the update is reported as stuck."""


class InferenceEngineDeploymentSpec(
    msgspec.Struct, frozen=True, gc=False, rename="camel", kw_only=True
):
    """Equal instances."""

    RULES: ClassVar = (
        ValidationRule(
            "has(self.template) || (has(self.release) && self.release != '')",
            "set template, or name a release of this cluster",
            field_path=".template",
            reason="FieldValueRequired",
        ),
    )

    replicas: Annotated[
        int,
        Meta(ge=0, extra={"format": "int32", "default": 1, "maximum": MAX_INSTANCES}),
    ] = 1
    """The number of instances."""
    release: Annotated[str, Meta(max_length=253)] = ""
    """The name of a Release of the same namespace that instances are made from; with a template,
    only the name of what the template is."""
    template: EngineSpec | None = None
    """The spec of the instances."""
    strategy: UpdateStrategy = UpdateStrategy()
    revision_history_limit: Annotated[Count, Meta(extra={"default": 10})] = 10
    """How many former revisions are kept for a rollback."""
    paused: Annotated[bool, Meta(extra={"default": False})] = False
    """Whether changes of release or template wait."""


class Revision(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A release or template that the instances were made from."""

    revision: int
    """Its number; the newest has the highest."""
    release: str = ""
    """The name of the release."""
    template_hash: str = ""
    """The hash of the template."""
    since: Time | None = None
    """When it was rolled out last."""


class InferenceEngineDeploymentStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The observed state of the instances."""

    observed_generation: int | None = None
    """The generation that this status describes."""
    replicas: RequiredCountOrZero = 0
    """The number of instances that are not terminating."""
    ready_replicas: RequiredCountOrZero = 0
    """The number of ready instances."""
    updated_replicas: RequiredCountOrZero = 0
    """The number of instances of the current release and template."""
    unallocatable: RequiredCountOrZero = 0
    """The number of instances that cannot be placed in this cluster."""
    additional_replicas: Annotated[int, Meta(extra={"format": "int32"})] | None = None
    """How many more instances of the current template could be placed in this cluster now; not set
    while that is unknown."""
    additional_replicas_message: str = ""
    """Why there could not be more."""
    observed_time: Time | None = None
    """When the number of additional instances was last computed."""
    selector: str = ""
    """The label selector of the instances' pods."""
    current_revision: int | None = None
    """The revision that instances are made from."""
    history: tuple[Revision, ...] = ()
    """Revisions to roll back to, the newest first."""
    conditions: tuple[Condition, ...] = ()
    """Available, Progressing, AllocationBlocked."""


class InferenceEngineDeployment(msgspec.Struct, gc=False):
    """Equal instances of one release in a cluster."""

    metadata: Metadata
    spec: InferenceEngineDeploymentSpec
    status: InferenceEngineDeploymentStatus = InferenceEngineDeploymentStatus()
