"""InferenceEngineInstance: one running copy of a model."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kilonova.api.inference_engine.templates import (
    Count,
    CountOrZero,
    EngineSpec,
    RequiredCountOrZero,
)
from kilonova.api.meta import Condition, Metadata
from kilonova.api.times import Time

InstancePhase = Literal[
    "Pending",
    "Allocating",
    "Starting",
    "Ready",
    "Degraded",
    "Repairing",
    "Relocating",
    "Failed",
    "Terminating",
]


class AgentPlacement(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Where an agent is."""

    agent: Count
    """The index of the agent."""
    node: str
    """The name of its node."""
    domain: str = ""
    """The path of the node in the topology, widest domain first: `zone-a/block-1/rack-2`."""


class RepairCounts(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """What was repaired so far."""

    recreated: CountOrZero = 0
    """How many agent pods were recreated, on the same or other nodes."""
    relocated: CountOrZero = 0
    """How often the whole instance was moved."""
    last_time: Time | None = None
    """When the last repair started."""
    last_reason: str = ""
    """Why."""


class InstanceStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The observed state of an instance."""

    observed_generation: int | None = None
    """The generation that this status describes."""
    phase: Annotated[InstancePhase, Meta(extra={"default": "Pending"})] = "Pending"
    """Pending until it is accepted, Allocating until all agents have a node, Starting until all are
    ready, then Ready; Degraded, Repairing and Relocating when pods or nodes fail; Failed if it
    cannot be placed in its cluster."""
    target_agents: RequiredCountOrZero = 0
    """The number of agents, by the spec or the build."""
    ready_agents: RequiredCountOrZero = 0
    """The number of agents that are ready."""
    pending_agents: RequiredCountOrZero = 0
    """The number of agents that are not ready."""
    conductor_ready: Annotated[bool, Meta(extra={"default": False, "required": True})] = False
    """Whether the conductor is ready, which it is when all agents have joined."""
    domain: str = ""
    """The smallest domain of the topology that has all agents."""
    allocation: tuple[AgentPlacement, ...] = ()
    """Where the agents are."""
    repairs: RepairCounts = RepairCounts()
    conditions: tuple[Condition, ...] = ()
    """Allocated, AgentsReady, ConductorReady, Ready, Degraded."""


class InferenceEngineInstance(msgspec.Struct, gc=False):
    """One running copy of a model: agents on accelerators, and a conductor."""

    metadata: Metadata
    spec: EngineSpec
    status: InstanceStatus = InstanceStatus()
