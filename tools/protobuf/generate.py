"""Generates the table with which the embedded API decodes protobuf bodies.

The table is derived from the struct tags of Kubernetes' API types, in the Go modules that
`tools/realparts/locks/control-plane` pins: only they distinguish pointers from values and specify
what JSON omits. It contains the kinds of the stable group-versions that a default kube-apiserver
serves, and their messages; no lists, which clients never send.

    python -m tools.protobuf.generate [--check]

`--check` writes nothing and fails if the table in the tree is stale.
"""

import json
import sys
from pathlib import Path
from typing import Any

from tools.protobuf.gosource import GoField, GoType, TypeName, parse_package
from tools.tables import find_module, write_tables

GROUPS = [
    *(
        f"k8s.io/api/{group_version}"
        for group_version in (
            "admissionregistration/v1",
            "apps/v1",
            "authentication/v1",
            "authorization/v1",
            "autoscaling/v1",
            "autoscaling/v2",
            "batch/v1",
            "certificates/v1",
            "coordination/v1",
            "core/v1",
            "discovery/v1",
            "events/v1",
            "flowcontrol/v1",
            "networking/v1",
            "node/v1",
            "policy/v1",
            "rbac/v1",
            "resource/v1",
            "scheduling/v1",
            "storage/v1",
        )
    ),
    "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1",
    "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1",
]
META = "k8s.io/apimachinery/pkg/apis/meta/v1"
SHARED = [META, "k8s.io/apimachinery/pkg/types"]
TYPE_META = TypeName(META, "TypeMeta")
LIST_META = TypeName(META, "ListMeta")

BASIC_TYPES = {"string", "bool", "int32", "int64", "float64", "[]byte"}
JSON_ENCODINGS = {
    TypeName(META, "Time"): "time",
    TypeName(META, "MicroTime"): "microtime",
    TypeName(META, "FieldsV1"): "json",
    TypeName("k8s.io/apimachinery/pkg/runtime", "RawExtension"): "json",
    TypeName("k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1", "JSON"): "json",
    TypeName("k8s.io/apimachinery/pkg/api/resource", "Quantity"): "quantity",
    TypeName("k8s.io/apimachinery/pkg/util/intstr", "IntOrString"): "int-or-string",
}
"""Messages whose JSON is not an object with their fields; the decoder handles these by name."""


class ProtobufTable:
    """The table, built from the kinds and all messages within them."""

    def __init__(self, types: dict[TypeName, GoType]) -> None:
        self.types = types
        self.messages: dict[str, list[list[Any]]] = {}

    def add_message(self, name: TypeName) -> str:
        """Add a struct and its messages; returns its name in the table."""
        short = f"{'.'.join(name.package.rsplit('/', 2)[-2:])}.{name.name}"
        if short not in self.messages:
            fields = self.messages[short] = []
            declared = self.types[name]
            for field in declared.fields:
                if "protobuf" in field.tags:
                    fields.append(self._build_row(declared, field))
            fields.sort()
        return short

    def _build_row(self, owner: GoType, field: GoField) -> list[Any]:
        tag = field.tags["protobuf"].split(",")
        name, *options = field.tags.get("json", "").split(",")
        name = name or next((part[5:] for part in tag if part.startswith("name=")), "")
        container, written, scope = self._unwrap_type(owner, field.type)
        kind = self._resolve_kind(scope, written)
        if container == "map" and kind in ("bool", "int32", "int64", "double"):
            sys.exit(f"a map of {kind} in {owner.name} is not supported by the decoder")
        if "inline" in options:
            name, shape = "", "inline"
        elif container:
            shape = container
        elif "omitzero" in options or ("omitempty" in options and self._can_be_empty(kind)):
            shape = "omit"
        else:
            shape = "keep"
        return [int(tag[1]), name, shape, kind]

    def _unwrap_type(self, owner: GoType, written: str) -> tuple[str, str, GoType]:
        """The container of the values (pointer, list, map, or none), and their type."""
        if written.startswith("*"):
            return "pointer", written[1:], owner
        if written.startswith("[]") and written != "[]byte":
            return "list", written[2:].removeprefix("*"), owner
        if written.startswith("map["):
            return "map", written.partition("]")[2], owner
        named = self.types.get(owner.resolve(written)) if written != "[]byte" else None
        if named and named.underlying[:1] in ("[", "m") and not _is_message_type(named):
            return self._unwrap_type(named, named.underlying)
        return "", written, owner

    def _resolve_kind(self, scope: GoType, written: str) -> str:
        if written in BASIC_TYPES:
            return {"float64": "double", "[]byte": "bytes"}.get(written, written)
        name = scope.resolve(written)
        if name in JSON_ENCODINGS:
            return JSON_ENCODINGS[name]
        declared = self.types[name]
        if declared.is_struct:
            return self.add_message(name)
        if _is_message_type(declared):
            return "string-list"
        return self._resolve_kind(declared, declared.underlying)

    def _can_be_empty(self, kind: str) -> bool:
        """Whether Go's omitempty has an effect: a struct is never empty.

        A port 0 counts as empty, although IntOrString is a struct in Go: clients that use protobuf
        encode an unset port so.
        """
        return kind not in self.messages and kind not in ("quantity", "json")


def _is_message_type(declared: GoType) -> bool:
    """A named slice that is encoded as a message of its own, so that it can be null."""
    return declared.underlying == "[]string" and "+protobuf.nullable=true" in declared.comment


def build_table() -> dict[str, Any]:
    """The table, before encoding."""
    modules = _list_module_folders()
    types: dict[TypeName, GoType] = {}
    for package in (*GROUPS, *SHARED):
        module = next(path for path in modules if package.startswith(f"{path}/"))
        types |= parse_package(package, modules[module] / package[len(module) + 1 :])
    table = ProtobufTable(types)
    kinds: dict[str, dict[str, str]] = {}
    for package in GROUPS:
        module = next(path for path in modules if package.startswith(f"{path}/"))
        group = _parse_group_name(modules[module] / package[len(module) + 1 :] / "register.go")
        version = package.rsplit("/", 1)[-1]
        kinds[f"{group}/{version}" if group else version] = {
            name.name: table.add_message(name)
            for name, declared in types.items()
            if name.package == package and _is_kind(declared)
        }
    # DeleteOptions belongs to every group-version.
    kinds["*"] = {"DeleteOptions": table.add_message(TypeName(META, "DeleteOptions"))}
    return {"kinds": kinds, "messages": table.messages}


def _list_module_folders() -> dict[str, Path]:
    paths = sorted({"/".join(package.split("/")[:2]) for package in (*GROUPS, *SHARED)})
    return {path: find_module(path) for path in paths}


def _parse_group_name(register: Path) -> str:
    for line in register.read_text().splitlines():
        if line.startswith("const GroupName = "):
            return line.split('"')[1]
    sys.exit(f"{register.parent.name}/{register.name} names no group")


def _is_kind(declared: GoType) -> bool:
    embedded = {declared.resolve(field.type) for field in declared.fields if field.embedded}
    return TYPE_META in embedded and LIST_META not in embedded


def main() -> None:
    write_tables(
        "tools.protobuf.generate",
        "Make the table of protobuf messages.",
        lambda: {"protobuf.json.gz": _format_json(build_table())},
    )


def _format_json(table: dict[str, Any]) -> bytes:
    return json.dumps(table, sort_keys=True, separators=(",", ":")).encode()


if __name__ == "__main__":
    main()
