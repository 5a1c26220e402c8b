"""Nodes."""

from collections.abc import Callable, Mapping

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, duplicate, forbidden_field, invalid_value, required
from kilonova.local.kinds.base import Column
from kilonova.local.kinds.columns import AGE, NAME, NONE, text, wide
from kilonova.local.kinds.rules import one_of
from kilonova.local.kinds.strategy import Reads, Strategy, strategy
from kilonova.local.kinds.walk import at, inside, objects, part
from kilonova.local.names import label_value, qualified_name

_ROLE_PREFIX = "node-role.kubernetes.io/"
_UNKNOWN = "<unknown>"


def node_status(node: JsonObject) -> str:
    """`Ready`, `NotReady` or `Unknown`, with `SchedulingDisabled` where it is cordoned."""
    words = [
        "Ready" if condition.get("status") == "True" else "NotReady"
        for condition in objects(node, "status", "conditions")
        if condition.get("type") == "Ready"
    ][-1:] or ["Unknown"]
    if at(node, "spec", "unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def node_roles(node: JsonObject) -> str:
    """The roles that labels give the node."""
    roles: set[str] = set()
    for key, value in part(node["metadata"], "labels").items():
        if key.startswith(_ROLE_PREFIX):
            roles.add(key.removeprefix(_ROLE_PREFIX))
        elif key == "kubernetes.io/role":
            roles.add(value)
    return ",".join(sorted(roles - {""})) or NONE


def _address(kind: str) -> Callable[[JsonObject], str]:
    def first(node: JsonObject) -> str:
        for address in objects(node, "status", "addresses"):
            if address.get("type") == kind:
                return address.get("address", "")
        return NONE

    return first


def _info(field: str) -> Callable[[JsonObject], str]:
    return lambda node: at(node, "status", "nodeInfo", field) or _UNKNOWN


def _kernel(node: JsonObject) -> str:
    architecture = at(node, "status", "nodeInfo", "architecture")
    return _info("kernelVersion")(node) + (f" ({architecture})" if architecture else "")


@strategy("", "Node")
class Nodes(Strategy):
    """Nodes may be created with a status: whoever registers one knows it."""

    born_with_status = True
    columns = (
        NAME,
        Column("Status", "string", lambda node, _: node_status(node)),
        Column("Roles", "string", lambda node, _: node_roles(node)),
        AGE,
        text("Version", "status", "nodeInfo", "kubeletVersion"),
        wide("Internal-IP", _address("InternalIP")),
        wide("External-IP", _address("ExternalIP")),
        wide("OS-Image", _info("osImage")),
        wide("Kernel-Version", _kernel),
        wide("Container-Runtime", _info("containerRuntimeVersion")),
    )
    selectable: Mapping[str, Reads] = {
        "spec.unschedulable": lambda node: str(bool(at(node, "spec", "unschedulable"))).lower(),
    }

    def fill(self, obj: JsonObject) -> None:
        status = inside(obj, "status")
        if "allocatable" not in status and (capacity := status.get("capacity")):
            status["allocatable"] = dict(capacity)

    def problems(self, obj: JsonObject) -> list[Problem]:
        problems: list[Problem] = []
        seen: set[tuple[str, str]] = set()
        for index, taint in enumerate(objects(obj, "spec", "taints")):
            path = f"metadata.taints[{index}]"  # where Kubernetes says they are
            key, effect = taint.get("key", ""), taint.get("effect", "")
            if trouble := qualified_name(key):
                problems.append(invalid_value(f"{path}.key", key, trouble))
            if trouble := label_value(taint.get("value", "")):
                problems.append(invalid_value(f"{path}.value", taint["value"], trouble))
            if not effect:
                problems.append(required(f"{path}.effect"))
            else:
                allowed = ["NoSchedule", "PreferNoSchedule", "NoExecute"]
                problems += one_of(effect, f"{path}.effect", allowed)
            if (key, effect) in seen:
                problems.append(duplicate(path, taint))
            seen.add((key, effect))
        return problems

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[Problem]:
        problems: list[Problem] = []
        for field, name in (("podCIDRs", "podCIDR"), ("providerID", "providerID")):
            before, now = at(old, "spec", field), at(new, "spec", field)
            if before and before != now:
                detail = f'node updates may not change {name} except from "" to valid'
                problems.append(forbidden_field(f"spec.{field}", detail))
        return problems
