"""Rules for one device of a slice."""

from collections.abc import Generator, Iterator

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, invalid_value, not_supported, required
from kilonova.local.kinds.devicebindings import binding_problems
from kilonova.local.kinds.devicecapacities import (
    attribute_problems,
    capacity_problems,
    consumption_problems,
)
from kilonova.local.kinds.devicenames import each, label_key, label_text, long_name, short_name
from kilonova.local.kinds.devicerequests import EFFECTS
from kilonova.local.kinds.nodeselectors import node_selector_problems
from kilonova.local.kinds.walk import objects, part

_MOST_FACTS = 32
_MOST_TAINTS = 16
_MOST_CONSUMPTIONS = 2


def device_problems(device: JsonObject, path: str, chooses_nodes: bool) -> Iterator[Problem]:
    """What is wrong with a device. `chooses_nodes`: each device says where it can be used."""
    yield from short_name(device.get("name", ""), f"{path}.name")
    facts = len(part(device, "attributes")) + len(part(device, "capacity"))
    if facts > _MOST_FACTS:
        detail = f"the total number of attributes and capacities must not exceed {_MOST_FACTS}"
        yield invalid_value(path, facts, detail)
    yield from attribute_problems(device, f"{path}.attributes")
    yield from capacity_problems(device, f"{path}.capacity")
    yield from each(objects(device, "taints"), _MOST_TAINTS, _taint, f"{path}.taints")
    yield from consumption_problems(device, f"{path}.consumesCounters", _MOST_CONSUMPTIONS)
    yield from _where(device, path, chooses_nodes)
    yield from binding_problems(device, path)


def nodes_given(value: JsonObject, path: str, empty: str) -> Generator[Problem, None, list[str]]:
    """Problems of `nodeName`, `nodeSelector`, `allNodes`; gives back which of them are there.

    `empty` is what to say of a name without letters.
    """
    given: list[str] = []
    name, selector, all = (value.get(field) for field in ("nodeName", "nodeSelector", "allNodes"))
    if name:
        given.append("`nodeName`")
        yield from long_name(name, f"{path}.nodeName")
    elif name is not None:
        yield invalid_value(f"{path}.nodeName", name, empty)
    if selector is not None:
        given.append("`nodeSelector`")
        yield from node_selector_problems(selector, f"{path}.nodeSelector")
    if all:
        given.append("`allNodes`")
    elif all is not None:
        yield invalid_value(f"{path}.allNodes", all, "must be either unset or set to true")
    return given


def _where(device: JsonObject, path: str, chooses_nodes: bool) -> Iterator[Problem]:
    flag = "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
    if not chooses_nodes:
        if any(device.get(name) is not None for name in ("nodeName", "nodeSelector", "allNodes")):
            detail = f"`nodeName`, `nodeSelector` and `allNodes` can only be set if {flag}"
            yield invalid_value(path, None, detail)
        return
    given = yield from nodes_given(device, path, "must not be empty")
    wanted = f"exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when {flag}"
    if not given:
        yield required(path, wanted)
    elif len(given) > 1:
        yield invalid_value(path, f"{{{', '.join(given)}}}", wanted)


def _taint(taint: JsonObject, path: str) -> Iterator[Problem]:
    yield from label_key(taint.get("key", ""), f"{path}.key")
    if value := taint.get("value"):
        yield from label_text(value, f"{path}.value")
    effect = taint.get("effect", "")
    if not effect:
        yield required(f"{path}.effect")
    elif effect not in EFFECTS:
        yield not_supported(f"{path}.effect", effect, EFFECTS)
