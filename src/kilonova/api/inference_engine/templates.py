"""What instances, deployments and releases share: pods, accelerators, placement, repair."""

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from kilonova.api.grove.common import PodSpec
from kilonova.api.podgang import PackConstraint
from kilonova.api.scheduling import Duration, Name, Quantity
from kilonova.api.validation_rules import ValidationRule

GROUP = "inference-engine.groq.io"
VERSION = "v1"

DEFAULT_ACCELERATOR = "nvidia.com/gpu"
"""The resource of accelerators where neither the build nor the spec names one."""
DEFAULT_STRATEGY = "tightest"
DEFAULT_REPAIR_POLICY = "ladder"
MAX_AGENTS = 10_000
"""The maximum of `targetAgents`. Enforced only by the API: an object that exceeds it must still be
decoded, so that it can be reported."""

Count = Annotated[int, Meta(ge=0, extra={"format": "int32"})]
CountOrZero = Annotated[int, Meta(extra={"format": "int32", "default": 0})]
RequiredCountOrZero = Annotated[CountOrZero, Meta(extra={"required": True})]
"""A count that is written whenever there is a status."""
Agents = Annotated[int, Meta(ge=1, extra={"format": "int32", "maximum": MAX_AGENTS})]


class PodTemplateMetadata(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Labels and annotations of pods."""

    labels: dict[str, str] = {}
    """Labels of the pods, beside ours."""
    annotations: dict[str, str] = {}
    """Annotations of the pods."""


class PodTemplate(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A pod template."""

    metadata: PodTemplateMetadata = PodTemplateMetadata()
    spec: PodSpec = {}
    """The spec of the pods, as in any pod template. The first container runs the engine."""


class Accelerator(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The accelerators of each agent. What is not set comes from the build."""

    resource: Annotated[str, Meta(max_length=317)] = ""
    """The name of the resource that nodes offer, such as `nvidia.com/gpu`, which is the default."""
    count: Annotated[int, Meta(ge=0, le=1024, extra={"format": "int32"})] | None = None
    """The number for each agent. Defaults to the number of the build, else to 1."""
    memory: Quantity | None = None
    """The minimum memory of each accelerator."""


class Allocation(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """How the place of an instance is chosen."""

    strategy: Annotated[Name, Meta(extra={"default": DEFAULT_STRATEGY})] = DEFAULT_STRATEGY
    """The allocation strategy: `tightest`, `packed`, `spread`, or that of a plug-in."""


class Repair(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """How failures of pods and nodes are repaired."""

    policy: Annotated[Name, Meta(extra={"default": DEFAULT_REPAIR_POLICY})] = DEFAULT_REPAIR_POLICY
    """The repair policy: `ladder`, or that of a plug-in."""
    deadline: Annotated[Duration, Meta(extra={"default": "5m"})] = "5m"
    """How long a step of the repair may take before the next step is tried."""


class EngineSpec(msgspec.Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    """An instance of a model: agents on accelerators, and a conductor."""

    RULES: ClassVar = (
        ValidationRule(
            "has(self.targetAgents) || (has(self.build) && self.build != '')",
            "set targetAgents, or name a build that specifies the number of agents",
            field_path=".targetAgents",
            reason="FieldValueRequired",
        ),
    )

    model: Annotated[str, Meta(min_length=1, max_length=253)]
    """The name of the model."""
    build: Annotated[str, Meta(max_length=253)] = ""
    """The id of the build: agents, accelerators and memory for each, topology, partitions."""
    release: Annotated[str, Meta(max_length=253)] = ""
    """The name of the release that this is made from."""
    target_agents: Agents | None = None
    """The number of agents. Defaults to that of the build."""
    image: Annotated[str, Meta(max_length=1024)] = ""
    """The image of the engine, for containers of the templates that name none."""
    agent: PodTemplate | None = None
    """The pods of the agents. Defaults to one container with the image."""
    conductor: PodTemplate | None = None
    """The pod of the conductor. Defaults to one container with the image."""
    accelerator: Accelerator | None = None
    tokenizer: Annotated[str, Meta(max_length=253)] = ""
    """The tokenizer: `org/model` or `org_model`."""
    config: Annotated[dict[str, str], Meta(max_length=256)] = {}
    """Settings of the engine; containers get them as environment variables."""
    topology: PackConstraint | None = None
    """The levels of the topology that the agents are packed into. Defaults to those of the
    allocation strategy."""
    allocation: Allocation = Allocation()
    repair: Repair = Repair()
    priority_class_name: Annotated[str, Meta(max_length=253)] = ""
    """The priority class of the pods."""
    queue: Annotated[str, Meta(max_length=253)] = ""
    """The queue that the accelerators are charged to."""
