"""Generate the table of what Go encodes for unset fields, from the pinned API modules.

OpenAPI does not specify which empty values Kubernetes omits and which it encodes: that is in the
struct tags of the Go types. `src/kilonova/local/data/forms.json.gz` maps a definition to its
non-pointer fields, each with one letter:
- `e`: omitted when empty (`""`, `0`, `false`, `[]`, a map without entries);
- `z`: always encoded, the zero value of its type when unset;
- `n`: a list or map that is always encoded, `null` when empty; a time that is never omitted;
- `p`: a pointer that is always encoded, `null` when unset;
- `s`: a struct that is always encoded;
- `i`: an integer or string, `0` when unset;
- `q`: a quantity, `"0"` when unset.

A field that is missing here is a pointer: encoded as given, or omitted. The output is deterministic
for the same pin. `--check` writes nothing and fails if the table is stale.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tools.tables import find_module, write_tables

STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"^type (\w+) =? ?([\w\[\]*.]+)$", re.MULTILINE)
FIELD = re.compile(r"^\t(?:(\w+)\s+)?(\*?[\w.\[\]*]+)\s+`[^`]*?json:\"([^\"]*)\"", re.MULTILINE)
SCALARS = {"string", "bool", "int", "int32", "int64", "uint32", "float64", "byte"}
# Structs with a custom JSON encoding, and the letter of an unset one.
SPECIAL = {
    "Time": "n",
    "MicroTime": "n",
    "RawExtension": "n",
    "JSON": "n",
    "IntOrString": "i",
    "Quantity": "q",
    "UID": "scalar",
    "NodeName": "scalar",
}


@dataclass
class GoPackage:
    """The types of one Go package: structs as the text of their fields, others as declared."""

    prefix: str
    structs: dict[str, str] = field(default_factory=dict[str, str])
    named: dict[str, str] = field(default_factory=dict[str, str])


def main() -> None:
    write_tables(
        "tools.schemas.zero_values",
        "Generate the table of what Go encodes for unset fields.",
        lambda: {"forms.json.gz": build_table()},
    )


def build_table() -> bytes:
    """The table as JSON: definition to field to letter."""
    packages = list(read_packages())
    table = {
        f"{package.prefix}.{name}": dict(sorted(encode_fields(package, name, packages)))
        for package in packages
        for name in package.structs
    }
    return json.dumps(table, sort_keys=True, separators=(",", ":")).encode()


def read_packages() -> Iterator[GoPackage]:
    api = find_module("k8s.io/api")
    for folder in sorted(api.glob("*/v[0-9]")):
        yield read_package(folder, f"io.k8s.api.{folder.parent.name}.{folder.name}")
    machinery = "pkg/apis/meta/v1"
    yield read_package(
        find_module("k8s.io/apimachinery") / machinery, "io.k8s.apimachinery.pkg.apis.meta.v1"
    )
    for name, path in (
        ("apiextensions-apiserver", "pkg/apis/apiextensions/v1"),
        ("kube-aggregator", "pkg/apis/apiregistration/v1"),
    ):
        prefix = f"io.k8s.{name}.{path.replace('/', '.')}"
        yield read_package(find_module(f"k8s.io/{name}") / path, prefix)


def read_package(folder: Path, prefix: str) -> GoPackage:
    package = GoPackage(prefix)
    for path in sorted(folder.glob("*.go")):
        if path.name.startswith(("zz_", "generated")) or path.name.endswith("_test.go"):
            continue
        text = path.read_text()
        package.structs.update(STRUCT.findall(text))
        package.named.update(NAMED.findall(text))
    return package


def encode_fields(
    package: GoPackage, name: str, packages: list[GoPackage]
) -> Iterator[tuple[str, str]]:
    """The fields of a struct, including those of embedded structs."""
    for _, kind, tag in FIELD.findall(package.structs[name]):
        json_name, *options = tag.split(",")
        if "inline" in options:
            holder, inner = find_type(kind.rpartition(".")[2], package, packages)
            yield from encode_fields(holder, inner, packages)
        elif json_name not in ("", "-") and (
            letter := encode_field(kind, options, package, packages)
        ):
            yield json_name, letter


def encode_field(
    kind: str, options: list[str], package: GoPackage, packages: list[GoPackage]
) -> str:
    may_omit = "omitempty" in options or "omitzero" in options
    if kind.startswith("*"):
        return "" if may_omit else "p"
    shape = classify_type(kind, package, packages)
    if shape in ("struct", "n", "i", "q"):
        if "omitzero" in options:
            return ""
        return "s" if shape == "struct" else shape
    if may_omit:
        return "e"
    return "z" if shape == "scalar" else "n"


def classify_type(kind: str, package: GoPackage, packages: list[GoPackage]) -> str:
    """struct, scalar, list, or the letter of a type with a custom JSON encoding."""
    if kind.startswith(("[]", "map[")):
        return "list"
    if kind in SCALARS:
        return "scalar"
    name = kind.rpartition(".")[2]
    if name in SPECIAL:
        return SPECIAL[name]
    holder, name = find_type(name, package, packages)
    return (
        "struct" if name in holder.structs else classify_type(holder.named[name], holder, packages)
    )


def find_type(name: str, package: GoPackage, packages: list[GoPackage]) -> tuple[GoPackage, str]:
    """Where a type is declared: in the same package, else in one of the shared packages."""
    shared = [each for each in packages if each.prefix.endswith((".core.v1", ".meta.v1"))]
    for candidate in (package, *shared, *packages):
        if name in candidate.structs or name in candidate.named:
            return candidate, name
    raise LookupError(f"{package.prefix}: no type {name}")


if __name__ == "__main__":
    main()
