"""The fleet file. Every complaint names the field, what was found, and what would do."""

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import msgspec
import yaml

from kilonova.api.quantity import parse
from kilonova.kube.yamlproblems import yaml_problem
from kilonova.local.names import dns_subdomain, label_value, qualified_name
from kilonova.local.nodes.fleet import (
    Amount,
    Failures,
    Fleet,
    Gpu,
    NodeGroup,
    Step,
    Taint,
    ZoneFailures,
    delay,
    seconds,
    shapes,
)
from kilonova.local.nodes.objects import MOST_NODES, MOST_PODS

_PLACES = {
    "": Fleet,
    "nodes": NodeGroup,
    "gpu": Gpu,
    "failures": Failures,
    "taints": Taint,
    "zoneFailures": ZoneFailures,
    "script": Step,
}
_WRITE = {
    "int": "write a whole number",
    "float": "write a number",
    "str": 'write text, in quotes where YAML would read a number, as "1"',
    "array": "write a list: [ … ]",
    "object": "write fields with values: { … }",
}
_LONGEST = 60
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_MISSING = re.compile(r"Object missing required field `(.*)`")
_EXPECTED = re.compile(r"Expected `(\w+)")


class FleetError(Exception):
    """A fleet file that cannot be used: says where, what was found, and what would do."""


def read_fleet(path: Path) -> Fleet:
    """The fleet that a YAML file describes; `FleetError` names the field that is wrong."""
    try:
        source = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise FleetError(f"{path} cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise FleetError(f"{path} is not YAML: {yaml_problem(error)}") from None
    try:
        fleet = msgspec.convert(source if source is not None else {}, Fleet)
    except msgspec.ValidationError as error:
        raise FleetError(f"{path}: {_misfit(source, str(error))}") from error
    for problem in chain(_problems(fleet), _script_problems(fleet)):
        raise FleetError(f"{path}: {problem}")
    return fleet


def _misfit(source: Any, message: str) -> str:
    """Say what msgspec complains about in the words of the file."""
    reason, _, where = message.partition(" - at `$")
    path = where.rstrip("`").removeprefix(".")
    place = re.sub(r"\[.*?\]", "", path).rpartition(".")[2]
    if found := _UNKNOWN.fullmatch(reason):
        known = ", ".join(field.encode_name for field in msgspec.structs.fields(_PLACES[place]))
        return f"{_under(path, found[1])}: there is no such field: choose from {known}"
    if found := _MISSING.fullmatch(reason):
        return (
            f"{_under(path, found[1])}: is missing: every entry of {place or 'the file'} needs it"
        )
    expected = _EXPECTED.match(reason)
    found = _shown(_value(source, path)) if path else "what is in it"
    fix = _WRITE.get(expected[1], reason) if expected else reason
    if reason.startswith("Invalid enum value"):
        fix = f"choose from {', '.join(_choices(path))}"
    return f"{path or 'the file'}: {found} does not fit: {fix}"


def _shown(value: Any) -> str:
    """A value as it is written, if it is short: a file that is none of ours is not printed."""
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    text = repr(value)
    return text if len(text) <= _LONGEST else "a long text"


def _choices(path: str) -> Iterator[str]:
    place, _, name = re.sub(r"\[.*?\]", "", path).rpartition(".")
    for field in msgspec.structs.fields(_PLACES[place.rpartition(".")[2]]):
        if field.encode_name == name:
            yield from get_args(field.type)


def _under(path: str, field: str) -> str:
    return f"{path}.{field}" if path else field


def _value(source: Any, path: str) -> Any:
    for key, index in re.findall(r"([^.\[\]]+)|\[(\d+|\.\.\.)\]", path):
        if key:
            source = source[key]
        elif index == "...":  # msgspec does not say which
            return source
        else:
            source = source[int(index)]
    return source


def _problems(fleet: Fleet) -> Iterator[str]:
    if fleet.heartbeat is not None:
        yield from _duration_problems("heartbeat", fleet.heartbeat)
    total = sum(group.count for group in fleet.nodes)
    if total > MOST_NODES:
        yield f"nodes: {total} nodes are too many: there are addresses for {MOST_NODES}"
    seen: set[str] = set()
    for number, group in enumerate(fleet.nodes):
        where = f"nodes[{number}]"
        if group.name in seen:
            yield f'{where}.name: "{group.name}" is used twice: give every group its own name'
        seen.add(group.name)
        yield from _group_problems(where, group)
    zones = fleet.zone_failures
    if zones.life:
        yield from _duration_problems("zoneFailures.life", zones.life)
    yield from _duration_problems("zoneFailures.outage", zones.outage)


def _script_problems(fleet: Fleet) -> Iterator[str]:
    """Asked once the groups are known to be well formed."""
    gpus = {shape.name: shape.group.gpu.count if shape.group.gpu else 0 for shape in shapes(fleet)}
    zones = {zone for group in fleet.nodes for zone in group.zones}
    for number, step in enumerate(fleet.script):
        where = f"script[{number}]"
        yield from _duration_problems(f"{where}.after", step.after, zero_too=True)
        if step.lasts:
            yield from _duration_problems(f"{where}.for", step.lasts)
        if problem := _target_problem(step, gpus, zones):
            yield f'{where}.target: "{step.target}" {problem}'


def _target_problem(step: Step, gpus: dict[str, int], zones: set[str]) -> str:
    node, slash, gpu = step.target.partition("/")
    match step.act:
        case "zone-out":
            return (
                ""
                if step.target in zones
                else f"is no zone: choose from {', '.join(sorted(zones))}"
            )
        case "gpu-lost" | "xid":
            if not slash or not gpu.isdecimal() or int(gpu) >= gpus.get(node, 0):
                return "is no GPU of a node: write NODE/INDEX, as h100-0/3"
            return ""
        case "pull-errors":
            known = step.target in zones or step.target in gpus
            return "" if known else "is neither a node nor a zone: write h100-0, or zone-a"
        case "node-out" | "drain":
            return "" if step.target in gpus else "is no node of this fleet: write one, as h100-0"


def _group_problems(where: str, group: NodeGroup) -> Iterator[str]:
    last = f"{group.name}-{max(0, group.count - 1)}"
    if reason := dns_subdomain(group.name) or label_value(last):
        yield f'{where}.name: "{group.name}": {reason}'
    if group.count < 0:
        yield f"{where}.count: {group.count} is too small: write 0 or more"
    if not 0 < group.pods <= MOST_PODS:
        yield f"{where}.pods: {group.pods} is not between 1 and {MOST_PODS}"
    yield from _layout_problems(where, group)
    if group.gpu is not None:
        if not 0 < group.gpu.count <= 256:
            yield f"{where}.gpu.count: {group.gpu.count} is not between 1 and 256"
        if not group.gpu.model or label_value(group.gpu.model):
            yield (
                f'{where}.gpu.model: "{group.gpu.model}" is not a label value: '
                "write letters, digits, '-', '_' and '.', as NVIDIA-H100-80GB-HBM3"
            )
        yield from _quantity_problems(f"{where}.gpu.memory", group.gpu.memory)
    for field in ("cpu", "memory", "storage"):
        yield from _quantity_problems(f"{where}.{field}", getattr(group, field))
    yield from _label_problems(where, group)
    if group.pull:
        yield from _delay_problems(f"{where}.pull", group.pull)
    for field in ("start", "stop"):
        yield from _delay_problems(f"{where}.{field}", getattr(group, field))
    yield from _failure_problems(f"{where}.failures", group.failures)


def _layout_problems(where: str, group: NodeGroup) -> Iterator[str]:
    if not group.zones:
        yield f"{where}.zones: [] is empty: name at least one zone"
        return
    for zone in group.zones:
        if not zone or label_value(zone):
            yield f'{where}.zones: "{zone}" is not a label value: write something like zone-a'
    if group.block_count < len(group.zones):
        yield (
            f"{where}.blocks: {group.block_count} is fewer than the {len(group.zones)} zones: "
            "write as many or more, a block is in one zone"
        )
    if group.rack_count < group.block_count:
        yield (
            f"{where}.racks: {group.rack_count} is fewer than the {group.block_count} blocks: "
            "write as many or more, a rack is in one block"
        )


def _label_problems(where: str, group: NodeGroup) -> Iterator[str]:
    for key, value in group.labels.items():
        if reason := qualified_name(key):
            yield f'{where}.labels: "{key}": {reason}'
        if reason := label_value(value):
            yield f'{where}.labels.{key}: "{value}": {reason}'
    for number, taint in enumerate(group.taints):
        if reason := qualified_name(taint.key):
            yield f'{where}.taints[{number}].key: "{taint.key}": {reason}'
        if reason := label_value(taint.value):
            yield f'{where}.taints[{number}].value: "{taint.value}": {reason}'


def _failure_problems(where: str, failures: Failures) -> Iterator[str]:
    for field, share in (("podStart", failures.pod_start), ("imagePull", failures.image_pull)):
        if not 0 <= share <= 1:
            yield f"{where}.{field}: {share} is not between 0 and 1"
    lives = {
        "podLife": failures.pod_life,
        "nodeLife": failures.node_life,
        "gpuLife": failures.gpu_life,
        "xidEvery": failures.xid_every,
    }
    for field, text in lives.items():
        if text:
            yield from _duration_problems(f"{where}.{field}", text)
    yield from _duration_problems(f"{where}.outage", failures.outage)
    yield from _duration_problems(f"{where}.gpuOutage", failures.gpu_outage)


def _duration_problems(field: str, text: str, *, zero_too: bool = False) -> Iterator[str]:
    try:
        if not seconds(text) and not zero_too:
            yield f'{field}: "{text}" is no time at all: write 500ms, 2s, 5m or 1h'
    except ValueError as error:
        yield f"{field}: {error}"


def _delay_problems(field: str, text: str) -> Iterator[str]:
    try:
        delay(text)
    except ValueError as error:
        yield f"{field}: {error}"


def _quantity_problems(field: str, amount: Amount) -> Iterator[str]:
    try:
        if parse(str(amount)).nano < 0:
            yield f'{field}: "{amount}" is below zero: write 64, 512Gi or 1Ti'
    except ValueError as error:
        yield f'{field}: "{amount}" is not a quantity ({error}): write 64, 512Gi or 1Ti'
