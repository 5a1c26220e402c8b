"""A fleet: which simulated nodes exist, and how they behave."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Literal

import msgspec

from kilonova.catalog.xids import FALLEN_OFF_BUS

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DEFAULT_HEARTBEAT = 10.0
_MAX_HEARTBEAT = 30.0
_MAX_RENEWALS_PER_SECOND = 200
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


@dataclass(frozen=True, slots=True)
class DelayRange:
    """A random duration between two bounds, in seconds."""

    low: float
    high: float

    def draw(self, random: Random) -> float:
        return self.low if self.low == self.high else random.uniform(self.low, self.high)


QuantityText = str | int
"""A quantity: `64`, `512Gi`. YAML parses some as numbers."""


class GpuSpec(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """The GPUs of a node. The node publishes their topology unless `topology` is none.

    With `dra` they are also published for ResourceClaims, in ResourceSlices: the GPUs, or also each
    MIG instance that they could have.

    `nvlink` is the extent of NVLink: within the node, or over all nodes of a rack, which then
    report one NVLink domain.
    """

    model: str
    count: int
    memory: QuantityText = "80Gi"
    topology: Literal["by-model", "none"] = "by-model"
    nvlink: Literal["node", "rack"] = "node"
    dra: Literal["none", "gpu", "mig"] = "none"


class FailureRates(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """Random failures: a fraction of starts and pulls, and mean times for the rest.

    `gpuMTBF` is the mean time until one GPU is lost, `xidInterval` the mean time between errors
    of one GPU that crash the pods using it. `interruptionMTBF` is the mean time until the machine
    is taken back, after a notice.
    """

    pod_start: float = 0.0
    image_pull: float = 0.0
    pod_mtbf: str = msgspec.field(default="", name="podMTBF")
    node_mtbf: str = msgspec.field(default="", name="nodeMTBF")
    outage: str = "60s"
    gpu_mtbf: str = msgspec.field(default="", name="gpuMTBF")
    gpu_outage: str = "10m"
    xid_interval: str = ""
    interruption_mtbf: str = msgspec.field(default="", name="interruptionMTBF")
    interruption_notice: str = "2m"


class Taint(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Repels pods that do not tolerate it."""

    key: str
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
    value: str = ""


class NodeGroup(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True
):
    """Equal nodes. Nodes with adjacent numbers share racks, racks share blocks, blocks share zones.

    By default there is one block per zone and one rack per block. `machine` is a machine type of
    the catalog, from which CPU, memory and GPUs follow; `price` is USD per hour of a node.
    """

    name: str
    count: int = 1
    cpu: QuantityText = "64"
    memory: QuantityText = "512Gi"
    storage: QuantityText = "1Ti"
    pods: int = 110
    gpu: GpuSpec | None = None
    zones: tuple[str, ...] = ("zone-a",)
    blocks: int | None = None
    racks: int | None = None
    labels: dict[str, str] = {}
    taints: tuple[Taint, ...] = ()
    pull: str = ""
    start: str = "500ms-1500ms"
    stop: str = "100ms-500ms"
    failures: FailureRates = FailureRates()
    machine: str = ""
    market: Literal["", "on-demand", "spot"] = ""
    price: float | None = None
    boot: str = ""

    @property
    def block_count(self) -> int:
        return len(self.zones) if self.blocks is None else self.blocks

    @property
    def rack_count(self) -> int:
        return self.block_count if self.racks is None else self.racks


FIELDS_OF_THE_NODE = (
    "name", "count", "zones", "blocks", "racks", "labels", "taints", "machine", "market", "price",
)  # fmt: skip
"""Fields of a group that a Node has itself; the others describe its machine."""


class ScriptStep(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """An action at a time after the start, which may end after a duration.

    `target` names a node, a zone, or a GPU of a node as `NODE/INDEX`.
    """

    after: str
    action: Literal[
        "node-outage", "zone-outage", "gpu-lost", "xid", "pull-errors", "drain", "interruption"
    ]
    target: str
    duration: str = msgspec.field(default="", name="for")
    code: int = FALLEN_OFF_BUS


class ZoneFailures(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Zone outages: the mean time between them, and their duration."""

    mtbf: str = ""
    outage: str = "5m"


class FleetCapacityRule(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """At most so many machines of a type, in a zone, on a market; an empty field means any.

    In a fleet file the rule may end after a duration (`for`).
    """

    machine: str = ""
    zone: str = ""
    market: Literal["", "on-demand", "spot"] = ""
    limit: int = 0
    duration: str = msgspec.field(default="", name="for")


class Fleet(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """All groups. The same seed gives the same delays and failures."""

    nodes: tuple[NodeGroup, ...] = ()
    seed: int = 0
    heartbeat: str | None = None
    zone_failures: ZoneFailures = ZoneFailures()
    script: tuple[ScriptStep, ...] = ()
    capacity: tuple[FleetCapacityRule, ...] = ()

    @property
    def heartbeat_seconds(self) -> float:
        """The interval of Lease renewals: as configured, else Kubernetes' default.

        Beyond two thousand nodes it is longer, lest heartbeats dominate the load of the server. It
        stays within the grace period of the node lifecycle controller.
        """
        if self.heartbeat is not None:
            return parse_seconds(self.heartbeat)
        total = sum(group.count for group in self.nodes)
        return min(max(_DEFAULT_HEARTBEAT, total / _MAX_RENEWALS_PER_SECOND), _MAX_HEARTBEAT)


NO_NODES = Fleet()


@dataclass(frozen=True, slots=True)
class FleetNode:
    """One node: its position in the topology, and what it is like.

    `number` is unique in a cluster; addresses follow from it. Block and rack may be empty for a
    node that is not of a fleet.
    """

    number: int
    name: str
    zone: str
    block: str
    rack: str
    group: NodeGroup


def iter_fleet_nodes(fleet: Fleet) -> Iterator[FleetNode]:
    """Every node, in order: nodes with adjacent numbers are adjacent in the topology."""
    number = 0
    for group in fleet.nodes:
        for index in range(group.count):
            rack = index * group.rack_count // group.count
            block = rack * group.block_count // group.rack_count
            zone = block * len(group.zones) // group.block_count
            yield FleetNode(
                number,
                f"{group.name}-{index}",
                group.zones[zone],
                f"{group.name}-block-{block}",
                f"{group.name}-rack-{rack}",
                group,
            )
            number += 1


def parse_seconds(text: str) -> float:
    """Parse `500ms`, `2s`, `5m`, `1h` to seconds."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f'"{text}" is not a duration: write 500ms, 2s, 5m or 1h')
    return float(found[1]) * _SECONDS[found[2]]


def parse_delay(text: str) -> DelayRange:
    """Parse `2s`, or `1s-3s` for a random duration in between."""
    low, dash, high = text.partition("-")
    bounds = DelayRange(parse_seconds(low), parse_seconds(high) if dash else parse_seconds(low))
    if bounds.low > bounds.high:
        raise ValueError(f'"{text}" has bounds in the wrong order: write the shorter one first')
    return bounds
