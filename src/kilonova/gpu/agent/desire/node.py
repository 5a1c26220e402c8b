"""What a Node should report of its GPUs, and the patches by which it gets to report it. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from kilonova import __version__
from kilonova.api.gpu.annotations import (
    AGENT,
    TOPOLOGY,
    InvalidAnnotation,
    Topology,
    format_topology,
    parse_topology,
)
from kilonova.api.gpu.health import HEALTH, UNHEALTHY_TAINT, HealthRecord, format_health
from kilonova.api.json import JsonObject
from kilonova.api.meta import Condition
from kilonova.catalog.resource_names import MIG_PREFIX
from kilonova.gpu.agent.resources import Node, Taint
from kilonova.gpu.topology.labels import MIG_LABEL_PREFIX
from kilonova.kube.status import (
    encode_condition,
    find_condition,
    has_same_content,
    keep_transition_time,
)


class DesiredNode(msgspec.Struct, frozen=True):
    """What the agent writes to its Node. None leaves it as it is."""

    labels: Mapping[str, str | None] | None = None
    topology: Topology | None = None
    health: Mapping[str, HealthRecord] | None = None
    capacity: Mapping[str, str] | None = None
    allocatable: Mapping[str, str] | None = None
    conditions: tuple[Condition, ...] = ()
    taint: Taint | None = None
    manages_taint: bool = True


def build_node_patch(node: Node, desired: DesiredNode, now: datetime) -> JsonObject | None:
    """The strategic merge patch of the status subresource, metadata included; None if the Node says
    all of it."""
    metadata: JsonObject = {}
    if annotations := _changed_annotations(node, desired):
        metadata["annotations"] = annotations
    if desired.labels is not None:
        present = node.metadata.labels
        if labels := _differences(present, desired.labels, MIG_LABEL_PREFIX):
            metadata["labels"] = labels
    status: JsonObject = {}
    amounts = (
        ("capacity", node.status.capacity, desired.capacity),
        ("allocatable", node.status.allocatable, desired.allocatable),
    )
    for name, present_amounts, wanted in amounts:
        if wanted is None:
            continue
        texts = {key: str(each) for key, each in present_amounts.items()}
        if changed := _differences(texts, wanted, MIG_PREFIX):
            status[name] = changed
    if conditions := _changed_conditions(node.status.conditions, desired.conditions, now):
        status["conditions"] = conditions
    if not metadata and not status:
        return None
    body: JsonObject = {"metadata": {"uid": node.metadata.uid, **metadata}}
    return {**body, "status": status} if status else body


def build_taint_patch(node: Node, desired: DesiredNode) -> JsonObject | None:
    """The merge patch of the Node's taints; None if they are as desired. It fails where the Node
    has changed meanwhile, since it replaces all taints."""
    present = node.spec.taints
    own = next((each for each in present if each.key == UNHEALTHY_TAINT), None)
    if not desired.manages_taint or (own is None) == (desired.taint is None):
        return None
    others = [each for each in present if each.key != UNHEALTHY_TAINT]
    taints = [*others, desired.taint] if desired.taint is not None else others
    return {
        "metadata": {
            "uid": node.metadata.uid,
            "resourceVersion": node.metadata.resource_version,
        },
        "spec": {"taints": msgspec.to_builtins(taints) or None},
    }


def _changed_annotations(node: Node, desired: DesiredNode) -> dict[str, str | None]:
    present, changed = node.metadata.annotations, dict[str, str | None]()
    if present.agent != __version__:
        changed[AGENT] = __version__
    if desired.topology is not None and not _says(present.topology, desired.topology):
        changed[TOPOLOGY] = format_topology(desired.topology)
    if desired.health is not None:
        text = format_health(dict(desired.health)) if desired.health else ""
        if text != present.health:
            changed[HEALTH] = text or None
    return changed


def _says(text: str, wanted: Topology) -> bool:
    found = parse_topology(text) if text else None
    return not isinstance(found, InvalidAnnotation) and found == wanted


def _differences(
    present: Mapping[str, str], wanted: Mapping[str, str | None], prefix: str
) -> dict[str, str | None]:
    """What is missing or differs, and None for what has the prefix and is not wanted, or is wanted
    not to be there."""
    changed: dict[str, str | None] = {
        name: value for name, value in wanted.items() if present.get(name) != value
    }
    stale = (name for name in present if name.startswith(prefix) and name not in wanted)
    return {**changed, **dict.fromkeys(stale)}


def _changed_conditions(
    present: Sequence[Condition], wanted: Sequence[Condition], now: datetime
) -> list[JsonObject]:
    found = ((each, find_condition(present, each.type)) for each in wanted)
    return [
        encode_condition(keep_transition_time(each, old, now))
        for each, old in found
        if not has_same_content(old, each)
    ]
