"""The record of an allocation, an annotation of its gang. Pure."""

from collections.abc import Iterator

import msgspec

from kilonova.api.inference_engine import names
from kilonova.api.podgang import PodGang
from kilonova.api.times import Time
from kilonova.artifacts.builds import Build
from kilonova.instances.allocation import AllocationConstraints
from kilonova.instances.repair import CONDUCTOR


class AllocationRecord(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Which pods an allocation consists of, and what was repaired."""

    constraints: AllocationConstraints = AllocationConstraints()
    """Those of the allocation strategy."""
    build: Build | None = None
    """What the instance's build specifies, so that it can be repaired while that cannot be
    loaded."""
    agents: int = 0
    """The number of agents."""
    generation: int = 0
    """The highest generation of a pod of the instance so far."""
    base: int = 0
    """The generation of the members' first pods."""
    members: dict[int, int] = {}
    """The generations of the pods of members that were replaced since."""
    replacements: dict[int, int] = {}
    """The generations of the second pods of members that are migrated."""
    level: str = ""
    """The level of the domain in which agents stay; empty until all have a node."""
    avoided_nodes: tuple[str, ...] = ()
    """The nodes that the last repair left."""
    recreated: int = 0
    """How many agent pods of the instance were recreated."""
    started: Time | None = None
    """When the last repair started."""
    reason: str = ""
    """Why."""
    origin: str = ""
    """The domain from which the instance was relocated."""
    reservation: str = ""
    """The Reservation that it was relocated to."""

    def get_generation(self, member: int) -> int:
        """The generation of a member's pod."""
        return self.members.get(member, self.base)

    def get_pod_name(self, instance: str, member: int) -> str:
        """The name of a member's pod."""
        return _build_name(instance, member, self.get_generation(member))

    def list_pods(self, instance: str) -> Iterator[tuple[int, int, str]]:
        """Member, generation and name of every pod; replacements last."""
        for member in (*range(self.agents), CONDUCTOR):
            generation = self.get_generation(member)
            yield member, generation, _build_name(instance, member, generation)
        for member, generation in sorted(self.replacements.items()):
            yield member, generation, _build_name(instance, member, generation)


def read_record(gang: PodGang) -> AllocationRecord:
    """The record of a gang; that of a new one if it has none that can be read."""
    text = gang.metadata.annotations.get(names.ALLOCATION_RECORD, "{}")
    try:
        return msgspec.json.decode(text, type=AllocationRecord)
    except msgspec.MsgspecError:
        return AllocationRecord()


def encode_record(record: AllocationRecord) -> str:
    """The value of the annotation."""
    fields = msgspec.to_builtins(record, str_keys=True)
    return msgspec.json.encode(fields, order="deterministic").decode()


def _build_name(instance: str, member: int, generation: int) -> str:
    if member == CONDUCTOR:
        return names.conductor_pod(instance, generation)
    return names.agent_pod(instance, member, generation)
