"""What an instance needs: of its spec, else of its build, else by default. Pure."""

import msgspec

from kilonova.api.inference_engine import Accelerator, EngineSpec
from kilonova.api.podgang import PackConstraint
from kilonova.api.scheduling import Quantity
from kilonova.artifacts.builds import Build, BuildAccelerator, BuildTopology


class Engine(msgspec.Struct, frozen=True, gc=False):
    """What an instance needs."""

    spec: EngineSpec
    agents: int
    resource: str
    """The name of the accelerators' resource."""
    count: int
    """The number of accelerators of each agent."""
    memory: Quantity | None
    """The minimum memory of each accelerator."""
    required: str
    """The level that has all agents in one domain; empty for none."""
    preferred: str
    """The level of which as few domains as possible have agents; empty for that of the strategy."""
    image: str
    config: dict[str, str]


class InvalidSpec(ValueError):
    """A field of a spec that cannot be honoured: its path, the problem, and how to fix it."""

    def __init__(self, reason: str, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.reason = reason
        """The reason of the condition."""
        self.field = field


def resolve_engine(spec: EngineSpec, build: Build | None = None) -> Engine:
    """What an instance needs; raises `InvalidSpec`."""
    agents = spec.target_agents or (None if build is None else build.agents)
    if agents is None:
        fix = "set it, or name a build that specifies the number of agents"
        raise InvalidSpec("NoTargetAgents", "spec.targetAgents", f"is missing: {fix}")
    own, pack = spec.accelerator or Accelerator(), spec.topology or PackConstraint()
    accelerator = BuildAccelerator() if build is None else build.accelerator
    levels: PackConstraint | BuildTopology = pack
    if build is not None and not (pack.required or pack.preferred):
        levels = build.topology
    return Engine(
        spec=spec,
        agents=agents,
        resource=own.resource or accelerator.resource,
        count=accelerator.count if own.count is None else own.count,
        memory=accelerator.memory if own.memory is None else own.memory,
        required=levels.required or "",
        preferred=levels.preferred or "",
        image=spec.image or ("" if build is None else build.image),
        config={**({} if build is None else build.config), **spec.config},
    )
