"""A fleet: which simulated nodes there are, and how they behave."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Literal

import msgspec

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_HEARTBEAT = 10.0
_LONGEST_HEARTBEAT = 30.0
_RENEWALS_PER_SECOND = 200
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


@dataclass(frozen=True, slots=True)
class Delay:
    """A time between two bounds, in seconds."""

    low: float
    high: float

    def draw(self, random: Random) -> float:
        return self.low if self.low == self.high else random.uniform(self.low, self.high)


Amount = str | int
"""A quantity: `64`, `512Gi`. YAML reads some as numbers."""


class Gpu(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The accelerators of a node, which tells how they are joined unless `topology` is none.

    `nvlink` says how far NVLink reaches: within the node, or over all nodes of a rack, which then
    tell that they are one domain.
    """

    model: str
    count: int
    memory: Amount = "80Gi"
    topology: Literal["by-model", "none"] = "by-model"
    nvlink: Literal["node", "rack"] = "node"


class Failures(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What goes wrong, at random: a share of starts and pulls, and mean times for the rest.

    `gpuLife` is the mean time until one GPU is lost, `xidEvery` between errors of one GPU that
    end what uses it.
    """

    pod_start: float = 0.0
    image_pull: float = 0.0
    pod_life: str = ""
    node_life: str = ""
    outage: str = "60s"
    gpu_life: str = ""
    gpu_outage: str = "10m"
    xid_every: str = ""


class Taint(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What keeps pods off a node that do not tolerate it."""

    key: str
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
    value: str = ""


class NodeGroup(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Nodes that are alike. Neighbours share racks, racks share blocks, blocks share zones.

    There is a block in each zone, and a rack in each block, where no number is given.
    """

    name: str
    count: int = 1
    cpu: Amount = "64"
    memory: Amount = "512Gi"
    storage: Amount = "1Ti"
    pods: int = 110
    gpu: Gpu | None = None
    zones: tuple[str, ...] = ("zone-a",)
    blocks: int | None = None
    racks: int | None = None
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    pull: str = ""
    start: str = "500ms-1500ms"
    stop: str = "100ms-500ms"
    failures: Failures = Failures()

    @property
    def block_count(self) -> int:
        return len(self.zones) if self.blocks is None else self.blocks

    @property
    def rack_count(self) -> int:
        return self.block_count if self.racks is None else self.racks


class Step(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Something that happens at a time after the start, and perhaps ends after another.

    `target` names a node, a zone, or a GPU of a node as `NODE/INDEX`.
    """

    after: str
    act: Literal["node-out", "zone-out", "gpu-lost", "xid", "pull-errors", "drain"]
    target: str
    lasts: str = msgspec.field(default="", name="for")
    code: int = 79


class ZoneFailures(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How zones fail: the mean time until one goes out, and for how long."""

    life: str = ""
    outage: str = "5m"


class Fleet(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """All groups. The same seed gives the same delays and failures."""

    nodes: tuple[NodeGroup, ...] = ()
    seed: int = 0
    heartbeat: str | None = None
    zone_failures: ZoneFailures = ZoneFailures()
    script: tuple[Step, ...] = ()

    @property
    def heartbeat_seconds(self) -> float:
        """How often a node renews its Lease: as asked, else as Kubernetes does, as far as it can.

        Past two thousand nodes it is less often, lest heartbeats are all that the server does.
        It stays within what a controller that watches them puts up with.
        """
        if self.heartbeat is not None:
            return seconds(self.heartbeat)
        total = sum(group.count for group in self.nodes)
        return min(max(_HEARTBEAT, total / _RENEWALS_PER_SECOND), _LONGEST_HEARTBEAT)


NO_NODES = Fleet()


@dataclass(frozen=True, slots=True)
class NodeShape:
    """One node of the fleet: its place among the others, and its group."""

    number: int
    name: str
    zone: str
    block: str
    rack: str
    group: NodeGroup


def shapes(fleet: Fleet) -> Iterator[NodeShape]:
    """Every node, in order: neighbours in number are neighbours in place."""
    number = 0
    for group in fleet.nodes:
        for index in range(group.count):
            rack = index * group.rack_count // group.count
            block = rack * group.block_count // group.rack_count
            zone = block * len(group.zones) // group.block_count
            yield NodeShape(
                number,
                f"{group.name}-{index}",
                group.zones[zone],
                f"{group.name}-block-{block}",
                f"{group.name}-rack-{rack}",
                group,
            )
            number += 1


def seconds(text: str) -> float:
    """`500ms`, `2s`, `5m`, `1h` in seconds."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f'"{text}" is not a duration: write 500ms, 2s, 5m or 1h')
    return float(found[1]) * _SECONDS[found[2]]


def delay(text: str) -> Delay:
    """`2s`, or `1s-3s` for anything in between."""
    low, dash, high = text.partition("-")
    bounds = Delay(seconds(low), seconds(high) if dash else seconds(low))
    if bounds.low > bounds.high:
        raise ValueError(f'"{text}" ends before it begins: write the shorter time first')
    return bounds
