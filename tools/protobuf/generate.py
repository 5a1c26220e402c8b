"""Writes the table by which the embedded API reads protobuf bodies.

The table comes from the struct tags of Kubernetes' own API types, in the Go modules that
`tools/control-plane` pins: only they tell a pointer from a value and what JSON omits. It holds
the kinds of the group-versions that a default kube-apiserver serves as stable, and the
messages within them; no lists, which nobody sends.

    python -m tools.protobuf.generate [--check]

`--check` writes nothing and fails if the table in the tree is not what would be written.
"""

import json
import sys
from pathlib import Path
from typing import Any

from tools.protobuf.gosource import GoField, GoType, TypeName, read_package
from tools.tables import generate, module

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

BASIC = {"string", "bool", "int32", "int64", "float64", "[]byte"}
JSON_FORMS = {
    TypeName(META, "Time"): "time",
    TypeName(META, "MicroTime"): "microtime",
    TypeName(META, "FieldsV1"): "json",
    TypeName("k8s.io/apimachinery/pkg/runtime", "RawExtension"): "json",
    TypeName("k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1", "JSON"): "json",
    TypeName("k8s.io/apimachinery/pkg/api/resource", "Quantity"): "quantity",
    TypeName("k8s.io/apimachinery/pkg/util/intstr", "IntOrString"): "int-or-string",
}
"""Messages whose JSON is not an object with their fields; the decoder knows these by name."""


class Table:
    """The table as it grows from the kinds to all messages within them."""

    def __init__(self, types: dict[TypeName, GoType]) -> None:
        self.types = types
        self.messages: dict[str, list[list[Any]]] = {}

    def message(self, name: TypeName) -> str:
        """Enter a struct and what it holds; gives the name that it has in the table."""
        short = f"{'.'.join(name.package.rsplit('/', 2)[-2:])}.{name.name}"
        if short not in self.messages:
            fields = self.messages[short] = []
            declared = self.types[name]
            for field in declared.fields:
                if "protobuf" in field.tags:
                    fields.append(self._row(declared, field))
            fields.sort()
        return short

    def _row(self, owner: GoType, field: GoField) -> list[Any]:
        tag = field.tags["protobuf"].split(",")
        name, *options = field.tags.get("json", "").split(",")
        name = name or next((part[5:] for part in tag if part.startswith("name=")), "")
        container, written, scope = self._unwrap(owner, field.type)
        kind = self._kind(scope, written)
        if container == "map" and kind in ("bool", "int32", "int64", "double"):
            sys.exit(f"a map of {kind} in {owner.name}: the decoder knows none")
        if "inline" in options:
            name, shape = "", "inline"
        elif container:
            shape = container
        elif "omitzero" in options or ("omitempty" in options and self._can_be_empty(kind)):
            shape = "omit"
        else:
            shape = "keep"
        return [int(tag[1]), name, shape, kind]

    def _unwrap(self, owner: GoType, written: str) -> tuple[str, str, GoType]:
        """What holds the values (pointer, list, map, or nothing), and their type."""
        if written.startswith("*"):
            return "pointer", written[1:], owner
        if written.startswith("[]") and written != "[]byte":
            return "list", written[2:].removeprefix("*"), owner
        if written.startswith("map["):
            return "map", written.partition("]")[2], owner
        named = self.types.get(owner.resolve(written)) if written != "[]byte" else None
        if named and named.underlying[:1] in ("[", "m") and not _is_message(named):
            return self._unwrap(named, named.underlying)
        return "", written, owner

    def _kind(self, scope: GoType, written: str) -> str:
        if written in BASIC:
            return {"float64": "double", "[]byte": "bytes"}.get(written, written)
        name = scope.resolve(written)
        if name in JSON_FORMS:
            return JSON_FORMS[name]
        declared = self.types[name]
        if declared.is_struct:
            return self.message(name)
        if _is_message(declared):
            return "string-list"
        return self._kind(declared, declared.underlying)

    def _can_be_empty(self, kind: str) -> bool:
        """Whether Go's omitempty means anything: a struct is never empty.

        A port that is 0 counts as empty, though a struct in Go: it is how a client that uses
        protobuf says that it gives none.
        """
        return kind not in self.messages and kind not in ("quantity", "json")


def _is_message(declared: GoType) -> bool:
    """A named slice that travels as a message of its own, so that it can be null."""
    return declared.underlying == "[]string" and "+protobuf.nullable=true" in declared.comment


def build() -> dict[str, Any]:
    """The table, as it is written."""
    modules = _module_folders()
    types: dict[TypeName, GoType] = {}
    for package in (*GROUPS, *SHARED):
        module = next(path for path in modules if package.startswith(f"{path}/"))
        types |= read_package(package, modules[module] / package[len(module) + 1 :])
    table = Table(types)
    kinds: dict[str, dict[str, str]] = {}
    for package in GROUPS:
        module = next(path for path in modules if package.startswith(f"{path}/"))
        group = _group_name(modules[module] / package[len(module) + 1 :] / "register.go")
        version = package.rsplit("/", 1)[-1]
        kinds[f"{group}/{version}" if group else version] = {
            name.name: table.message(name)
            for name, declared in types.items()
            if name.package == package and _is_kind(declared)
        }
    # Options of a delete are of every group-version.
    kinds["*"] = {"DeleteOptions": table.message(TypeName(META, "DeleteOptions"))}
    return {"kinds": kinds, "messages": table.messages}


def _module_folders() -> dict[str, Path]:
    paths = sorted({"/".join(package.split("/")[:2]) for package in (*GROUPS, *SHARED)})
    return {path: module(path) for path in paths}


def _group_name(register: Path) -> str:
    for line in register.read_text().splitlines():
        if line.startswith("const GroupName = "):
            return line.split('"')[1]
    sys.exit(f"{register.parent.name}/{register.name} names no group")


def _is_kind(declared: GoType) -> bool:
    embedded = {declared.resolve(field.type) for field in declared.fields if field.embedded}
    return TYPE_META in embedded and LIST_META not in embedded


def main() -> None:
    generate(
        "tools.protobuf.generate",
        "Make the table of protobuf messages.",
        lambda: {"protobuf.json.gz": _as_json(build())},
    )


def _as_json(table: dict[str, Any]) -> bytes:
    return json.dumps(table, sort_keys=True, separators=(",", ":")).encode()


if __name__ == "__main__":
    main()
