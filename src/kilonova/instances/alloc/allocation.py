"""Copies of a build placed in a snapshot: the answer of `kilonova alloc`. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from kilonova.api.inference_engine import EngineSpec, names
from kilonova.api.nodes.topology_labels import TOPOLOGY_LEVELS
from kilonova.artifacts.builds import Build
from kilonova.instances.alloc.instance_gang import build_instance_gang
from kilonova.instances.allocation import AllocationConstraints, AllocationRequest
from kilonova.instances.builders.engine import Engine, resolve_engine
from kilonova.instances.builders.gang import AGENTS
from kilonova.instances.builders.identity import Identity
from kilonova.instances.resources import Node
from kilonova.scheduler.core.model.gangs import Gang
from kilonova.scheduler.library.copies import Copies, CopyPod, PlacedCopy, count_copies
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot

_NO_IMAGE = "image-of-the-build"
"""In place of the image of a build that names none: scheduling does not depend on it."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """Where copies of a build would be placed."""

    build: Build
    strategy: str
    copies: Copies


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """An instance of a build that does not exist."""

    build: Build
    identity: Identity
    engine: Engine
    strategy: str

    @classmethod
    def of(cls, build: Build, namespace: str, strategy: str, name: str = "") -> "BuildRequest":
        """An instance of a build; without a name, it has that of the model."""
        spec = EngineSpec(model=build.model, build=build.id, image=build.image or _NO_IMAGE)
        used = name or _to_name(build.model)
        # Copies are instances of one deployment: strategies may spread them.
        identity = Identity(namespace, used, labels={names.DEPLOYMENT: used})
        return cls(build, identity, resolve_engine(spec, build), strategy)

    def ask_strategy(self, levels: Sequence[str], nodes: Sequence[Node]) -> AllocationRequest:
        """What the strategy is given."""
        return AllocationRequest(
            namespace=self.identity.namespace,
            name=self.identity.name,
            labels=self.identity.labels,
            spec=self.engine.spec,
            agents=self.engine.agents,
            resource=self.engine.resource,
            count=self.engine.count,
            levels=tuple(levels),
            list_nodes=lambda: nodes,
        )

    def build_gang(self, constraints: AllocationConstraints, snapshot: ClusterSnapshot) -> Gang:
        """The gang of the first copy; raises `InvalidSpec`."""
        return build_instance_gang(self.identity, self.engine, constraints, snapshot)


def find_levels(cluster_snapshot: ClusterSnapshot) -> tuple[str, ...]:
    """The topology of a cluster, as the controllers give it to strategies."""
    return cluster_snapshot.topology_levels or TOPOLOGY_LEVELS


def allocate(
    request: BuildRequest,
    constraints: AllocationConstraints,
    cluster_snapshot: ClusterSnapshot,
    limit: int,
) -> Allocation:
    """Place at most so many copies of a build; raises `InvalidSpec`."""
    gang = request.build_gang(constraints, cluster_snapshot)
    copies = count_copies(cluster_snapshot, gang, limit)
    return Allocation(request.build, request.strategy, copies)


def list_agents(copy: PlacedCopy) -> list[tuple[str, CopyPod]]:
    """The pods of a copy, each with the index of its agent; of the conductor, its role."""
    agents = (pod for pod in copy.pods if pod.group == AGENTS)
    numbered = [(str(index), pod) for index, pod in enumerate(agents)]
    return [*numbered, *((pod.group, pod) for pod in copy.pods if pod.group != AGENTS)]


def _to_name(model: str) -> str:
    """A name for objects: that of the model, as far as it can be one."""
    letters = (each if each.isascii() and each.isalnum() else "-" for each in model.lower())
    name = "".join(islice(letters, 40)).strip("-")
    return name or "instance"
