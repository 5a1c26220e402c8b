"""The fleet file: which simulated nodes there are, and how they behave."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import msgspec
import yaml

from kilonova.local.names import dns_subdomain
from kilonova.local.quantity import parse

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


class FleetError(Exception):
    """A fleet file that cannot be used: says where, what was found, and what would do."""


@dataclass(frozen=True, slots=True)
class Delay:
    """A time between two bounds, in seconds."""

    low: float
    high: float

    def draw(self, random: Random) -> float:
        return self.low if self.low == self.high else random.uniform(self.low, self.high)


class Gpu(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The accelerators of a node."""

    model: str
    count: int
    memory: str = "80Gi"


class Failures(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What goes wrong, at random: a share of pod starts, and mean times for the rest."""

    pod_start: float = 0.0
    pod_life: str = ""
    node_life: str = ""
    outage: str = "60s"


class NodeGroup(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Nodes that are alike. Neighbours share racks, racks share blocks, blocks share zones."""

    name: str
    count: int = 1
    cpu: str = "64"
    memory: str = "512Gi"
    storage: str = "1Ti"
    pods: int = 110
    gpu: Gpu | None = None
    zones: tuple[str, ...] = ("zone-a",)
    blocks: int = 1
    racks: int = 1
    labels: dict[str, str] = {}
    taints: tuple[dict[str, str], ...] = ()
    start: str = "500ms-1500ms"
    stop: str = "100ms-500ms"
    failures: Failures = Failures()


class Fleet(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """All groups. The same seed gives the same delays and failures."""

    nodes: tuple[NodeGroup, ...] = ()
    seed: int = 0
    heartbeat: str = "10s"


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


def read_fleet(path: Path) -> Fleet:
    """The fleet that a YAML file describes; `FleetError` names the field that is wrong."""
    try:
        source = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise FleetError(f"{path} cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise FleetError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    try:
        fleet = msgspec.convert(source if source is not None else {}, Fleet)
    except msgspec.ValidationError as error:
        raise FleetError(f"{path}: {error}") from error
    for problem in _problems(fleet):
        raise FleetError(f"{path}: {problem}")
    return fleet


def default_fleet() -> Fleet:
    """What `kilonova up` starts with when no file is given: two racks of H100s, some L4s."""
    h100 = Gpu("NVIDIA-H100-80GB-HBM3", 8, "80Gi")
    l4 = Gpu("NVIDIA-L4", 1, "24Gi")
    return Fleet(
        nodes=(
            NodeGroup("h100", 8, cpu="192", memory="2Ti", gpu=h100, zones=("zone-a",), racks=2),
            NodeGroup("l4", 4, cpu="32", memory="128Gi", gpu=l4, zones=("zone-b",)),
        )
    )


def shapes(fleet: Fleet) -> Iterator[NodeShape]:
    """Every node, in order: neighbours in number are neighbours in place."""
    number = 0
    for group in fleet.nodes:
        for index in range(group.count):
            yield NodeShape(
                number,
                f"{group.name}-{index}",
                group.zones[index * len(group.zones) // group.count],
                f"{group.name}-block-{index * group.blocks // group.count}",
                f"{group.name}-rack-{index * group.racks // group.count}",
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


def _problems(fleet: Fleet) -> Iterator[str]:
    seen: set[str] = set()
    yield from _duration_problems("heartbeat", fleet.heartbeat)
    for number, group in enumerate(fleet.nodes):
        where = f"nodes[{number}]"
        reason = dns_subdomain(group.name)
        if reason:
            yield f'{where}.name: "{group.name}": {reason}'
        if group.name in seen:
            yield f'{where}.name: "{group.name}" is used twice: give every group its own name'
        seen.add(group.name)
        for field in ("count", "pods", "blocks", "racks"):
            value: int = getattr(group, field)
            if value < (0 if field == "count" else 1):
                yield f"{where}.{field}: {value} is too small"
        if not group.zones:
            yield f"{where}.zones: name at least one zone"
        if group.gpu is not None and not 0 < group.gpu.count <= 256:
            yield f"{where}.gpu.count: {group.gpu.count} is not between 1 and 256"
        for field in ("cpu", "memory", "storage"):
            yield from _quantity_problems(f"{where}.{field}", getattr(group, field))
        for field in ("start", "stop"):
            yield from _duration_problems(f"{where}.{field}", getattr(group, field), spread=True)
        failures = group.failures
        if not 0 <= failures.pod_start <= 1:
            yield f"{where}.failures.podStart: {failures.pod_start} is not between 0 and 1"
        for field, text in (
            ("podLife", failures.pod_life),
            ("nodeLife", failures.node_life),
            ("outage", failures.outage),
        ):
            if text:
                yield from _duration_problems(f"{where}.failures.{field}", text)


def _duration_problems(field: str, text: str, *, spread: bool = False) -> Iterator[str]:
    try:
        delay(text) if spread else seconds(text)
    except ValueError as error:
        yield f"{field}: {error}"


def _quantity_problems(field: str, text: str) -> Iterator[str]:
    try:
        parse(text)
    except ValueError as error:
        yield f'{field}: "{text}" is not a quantity ({error}): write 64, 512Gi or 1Ti'
