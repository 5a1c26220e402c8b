"""What machine a Node describes: its annotation, its machine type, its labels. Pure.

`{"boot": "30s-60s", "gpu": {"model": "NVIDIA-L4", "count": 2}}` in the annotation
`sim.kilonova.dev/machine` has the fields of a group of a fleet file, except those that the Node
itself has: names, counts, topology, labels, taints. Where the annotation does not specify them,
CPU, memory and GPUs are those of the machine type in the label `node.kubernetes.io/instance-type`.
"""

from functools import lru_cache
from random import Random

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.simnodes.fleet.file import parse_group
from kilonova.local.simnodes.fleet.model import (
    FIELDS_OF_THE_NODE,
    FleetNode,
    NodeGroup,
    parse_delay,
)
from kilonova.local.simnodes.lifecycle.node_objects import (
    FLEET_ANNOTATION,
    MACHINE_ANNOTATION,
    NUMBER_ANNOTATION,
    SimulatedNode,
)

DEFAULT_ZONE = "zone-a"


def format_description(group: NodeGroup) -> str:
    """The annotation for the nodes of a group."""
    fields: JsonObject = msgspec.to_builtins(group)
    kept = {name: value for name, value in fields.items() if name not in FIELDS_OF_THE_NODE}
    return msgspec.json.encode(kept).decode()


def is_described(node: SimulatedNode) -> bool:
    """Whether the Node specifies what machine it is."""
    metadata = node.metadata
    return MACHINE_ANNOTATION in metadata.annotations or bool(metadata.labels.machine)


def describe_node(node: SimulatedNode, number: int | None = None) -> FleetNode:
    """The machine of a Node; `FleetError` if its description is invalid.

    `number` is that of a machine that is being launched; by default it is the one of its Node.
    """
    metadata = node.metadata
    labels, annotations = metadata.labels, metadata.annotations
    group = _parse_description(
        annotations.get(MACHINE_ANNOTATION, ""),
        labels.machine,
        annotations.get(FLEET_ANNOTATION, "") or "node",
    )
    return FleetNode(
        read_number(node) if number is None else number,
        metadata.name,
        labels.zone or DEFAULT_ZONE,
        labels.block,
        labels.rack,
        group,
    )


def read_number(node: SimulatedNode) -> int:
    """The number of a launched machine; 0 if the annotation is not a number."""
    text = node.metadata.annotations.get(NUMBER_ANNOTATION, "")
    return int(text) if text.isdecimal() and len(text) <= len("32768") else 0


def draw_boot_delay(group: NodeGroup, node: SimulatedNode, seed: int) -> float:
    """How many seconds after its creation the machine is ready; the same in every process."""
    if not group.boot:
        return 0.0
    metadata = node.metadata
    random = Random(f"{seed} {metadata.name} {metadata.creation_timestamp}")  # noqa: S311
    return parse_delay(group.boot).draw(random)


@lru_cache(maxsize=1024)
def _parse_description(text: str, machine: str, group: str) -> NodeGroup:
    """Equal nodes share one result."""
    return parse_group(text, machine, group)
