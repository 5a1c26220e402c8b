"""Nodes."""

from collections.abc import Callable, Mapping

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import (
    FieldError,
    duplicate_value,
    forbidden_value,
    invalid_value,
    required_value,
)
from kilonova.local.apimachinery.names import label_value_error, qualified_name_error
from kilonova.local.apimachinery.unstructured import (
    ensure_object,
    nested_object,
    nested_objects,
    nested_value,
)
from kilonova.local.apiserver.kinds.columns import AGE, NAME, NONE, text_column, wide_column
from kilonova.local.apiserver.kinds.kind import PrinterColumn
from kilonova.local.apiserver.kinds.strategy import BuiltinStrategy, FieldReader, register_strategy
from kilonova.local.apiserver.kinds.validation import validate_enum

_ROLE_PREFIX = "node-role.kubernetes.io/"
_UNKNOWN = "<unknown>"


def node_status(node: JsonObject) -> str:
    """`Ready`, `NotReady` or `Unknown`, with `SchedulingDisabled` if the node is cordoned."""
    states = [
        "Ready" if condition.get("status") == "True" else "NotReady"
        for condition in nested_objects(node, "status", "conditions")
        if condition.get("type") == "Ready"
    ][-1:] or ["Unknown"]
    if nested_value(node, "spec", "unschedulable"):
        states.append("SchedulingDisabled")
    return ",".join(states)


def node_roles(node: JsonObject) -> str:
    """The roles in the node's labels."""
    roles: set[str] = set()
    for key, value in nested_object(node["metadata"], "labels").items():
        if key.startswith(_ROLE_PREFIX):
            roles.add(key.removeprefix(_ROLE_PREFIX))
        elif key == "kubernetes.io/role":
            roles.add(value)
    return ",".join(sorted(roles - {""})) or NONE


def _address_reader(kind: str) -> Callable[[JsonObject], str]:
    def first(node: JsonObject) -> str:
        for address in nested_objects(node, "status", "addresses"):
            if address.get("type") == kind:
                return address.get("address", "")
        return NONE

    return first


def _node_info_reader(field: str) -> Callable[[JsonObject], str]:
    return lambda node: nested_value(node, "status", "nodeInfo", field) or _UNKNOWN


def _kernel(node: JsonObject) -> str:
    architecture = nested_value(node, "status", "nodeInfo", "architecture")
    return _node_info_reader("kernelVersion")(node) + (f" ({architecture})" if architecture else "")


@register_strategy("", "Node")
class NodeStrategy(BuiltinStrategy):
    """A node may be created with a status: its kubelet sets both when it registers."""

    allows_status_on_create = True
    columns = (
        NAME,
        PrinterColumn("Status", "string", lambda node, _: node_status(node)),
        PrinterColumn("Roles", "string", lambda node, _: node_roles(node)),
        AGE,
        text_column("Version", "status", "nodeInfo", "kubeletVersion"),
        wide_column("Internal-IP", _address_reader("InternalIP")),
        wide_column("External-IP", _address_reader("ExternalIP")),
        wide_column("OS-Image", _node_info_reader("osImage")),
        wide_column("Kernel-Version", _kernel),
        wide_column("Container-Runtime", _node_info_reader("containerRuntimeVersion")),
    )
    selectable_fields: Mapping[str, FieldReader] = {
        "spec.unschedulable": lambda node: str(
            bool(nested_value(node, "spec", "unschedulable"))
        ).lower(),
    }

    def set_defaults(self, obj: JsonObject) -> None:
        status = ensure_object(obj, "status")
        if "allocatable" not in status and (capacity := status.get("capacity")):
            status["allocatable"] = dict(capacity)

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        problems: list[FieldError] = []
        seen: set[tuple[str, str]] = set()
        for index, taint in enumerate(nested_objects(obj, "spec", "taints")):
            path = f"metadata.taints[{index}]"  # the path that Kubernetes reports
            key, effect = taint.get("key", ""), taint.get("effect", "")
            if error := qualified_name_error(key):
                problems.append(invalid_value(f"{path}.key", key, error))
            if error := label_value_error(taint.get("value", "")):
                problems.append(invalid_value(f"{path}.value", taint["value"], error))
            if not effect:
                problems.append(required_value(f"{path}.effect"))
            else:
                allowed = ["NoSchedule", "PreferNoSchedule", "NoExecute"]
                problems += validate_enum(effect, f"{path}.effect", allowed)
            if (key, effect) in seen:
                problems.append(duplicate_value(path, taint))
            seen.add((key, effect))
        return problems

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[FieldError]:
        problems: list[FieldError] = []
        for field, name in (("podCIDRs", "podCIDR"), ("providerID", "providerID")):
            before, now = nested_value(old, "spec", field), nested_value(new, "spec", field)
            if before and before != now:
                detail = f'node updates may not change {name} except from "" to valid'
                problems.append(forbidden_value(f"spec.{field}", detail))
        return problems
