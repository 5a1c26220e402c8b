"""The data of a build, as it is in its file."""

import msgspec

from kilonova.api.inference_engine import DEFAULT_ACCELERATOR


class BuildAccelerator(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True
):
    """The accelerators of each agent."""

    resource: str = DEFAULT_ACCELERATOR
    """The name of the resource that nodes offer."""
    count: int = 1
    """The number for each agent; 0 for an engine without accelerators."""
    memory: int | str | None = None
    """The minimum memory of each accelerator: `80Gi`."""


class BuildTopology(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True
):
    """The level of the topology that agents are packed into; each is the key of a node label."""

    required: str | None = None
    """All agents in one domain of this level."""
    preferred: str | None = None
    """In as few domains of this level as possible."""


class Partition(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True
):
    """Agents, of consecutive indices, that hold one part of the model."""

    name: str
    agents: int
    topology: BuildTopology = BuildTopology()


class Build(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    rename="camel",
    omit_defaults=True,
    kw_only=True,
):
    """What an instance of a model needs."""

    id: str
    """The name of the build in every source."""
    model: str
    """The name of the model."""
    agents: int
    """The number of agents."""
    accelerator: BuildAccelerator = BuildAccelerator()
    topology: BuildTopology = BuildTopology()
    """Where all agents are, relative to each other."""
    partitions: tuple[Partition, ...] = ()
    """The partitions, by index of their agents; their agents are all agents of the build."""
    image: str = ""
    """The image of the engine."""
    config: dict[str, str] = {}
    """Settings of the engine; containers get them as environment variables."""
    annotations: dict[str, str] = {}
    """What tools note of the build; nothing is read from it."""

    @property
    def accelerators(self) -> int:
        """The accelerators of all agents together."""
        return self.agents * self.accelerator.count
