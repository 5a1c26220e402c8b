"""Make the table of what Go writes for a field that is not set, from the pinned API modules.

OpenAPI does not say which empty values Kubernetes drops and which it writes out: that is in
the struct tags of the Go types. `src/kilonova/local/data/forms.json.gz` maps a definition to
its fields that are more than a pointer, each with one letter:

- `e`: dropped when empty (`""`, `0`, `false`, `[]`, a map without entries);
- `z`: written always, the zero value of its type when not set;
- `n`: a list or map that is written always, `null` when empty; a time that is never left out;
- `p`: a pointer that is written always, `null` when not set;
- `s`: a struct that is written always;
- `i`: an integer or string, `0` when not set;
- `q`: a quantity, `"0"` when not set.

A field that is missing here is a pointer: written as it was given, or not at all. The same pin
gives the same bytes. `--check` writes nothing and fails if the table is stale.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tools.tables import generate, module

STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"^type (\w+) =? ?([\w\[\]*.]+)$", re.MULTILINE)
FIELD = re.compile(r"^\t(?:(\w+)\s+)?(\*?[\w.\[\]*]+)\s+`[^`]*?json:\"([^\"]*)\"", re.MULTILINE)
SCALARS = {"string", "bool", "int", "int32", "int64", "uint32", "float64", "byte"}
# Structs with a JSON form of their own, and the letter of an unset one.
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
class Package:
    """The types of one Go package: structs as the text of their fields, others as they are."""

    prefix: str
    structs: dict[str, str] = field(default_factory=dict[str, str])
    named: dict[str, str] = field(default_factory=dict[str, str])


def main() -> None:
    generate(
        "tools.schemas.forms",
        "Make the table of what Go writes for a field that is not set.",
        lambda: {"forms.json.gz": make_table()},
    )


def make_table() -> bytes:
    """The table as JSON: definition to field to letter."""
    packages = list(read_packages())
    table = {
        f"{package.prefix}.{name}": dict(sorted(letters(package, name, packages)))
        for package in packages
        for name in package.structs
    }
    return json.dumps(table, sort_keys=True, separators=(",", ":")).encode()


def read_packages() -> Iterator[Package]:
    api = module("k8s.io/api")
    for folder in sorted(api.glob("*/v[0-9]")):
        yield read_package(folder, f"io.k8s.api.{folder.parent.name}.{folder.name}")
    machinery = "pkg/apis/meta/v1"
    yield read_package(
        module("k8s.io/apimachinery") / machinery, "io.k8s.apimachinery.pkg.apis.meta.v1"
    )
    for name, path in (
        ("apiextensions-apiserver", "pkg/apis/apiextensions/v1"),
        ("kube-aggregator", "pkg/apis/apiregistration/v1"),
    ):
        prefix = f"io.k8s.{name}.{path.replace('/', '.')}"
        yield read_package(module(f"k8s.io/{name}") / path, prefix)


def read_package(folder: Path, prefix: str) -> Package:
    package = Package(prefix)
    for path in sorted(folder.glob("*.go")):
        if path.name.startswith(("zz_", "generated")) or path.name.endswith("_test.go"):
            continue
        text = path.read_text()
        package.structs.update(STRUCT.findall(text))
        package.named.update(NAMED.findall(text))
    return package


def letters(package: Package, name: str, packages: list[Package]) -> Iterator[tuple[str, str]]:
    """The fields of a struct, those of embedded ones among them."""
    for _, kind, tag in FIELD.findall(package.structs[name]):
        json_name, *options = tag.split(",")
        if "inline" in options:
            holder, inner = locate(kind.rpartition(".")[2], package, packages)
            yield from letters(holder, inner, packages)
        elif json_name not in ("", "-") and (letter := letter_of(kind, options, package, packages)):
            yield json_name, letter


def letter_of(kind: str, options: list[str], package: Package, packages: list[Package]) -> str:
    may_omit = "omitempty" in options or "omitzero" in options
    if kind.startswith("*"):
        return "" if may_omit else "p"
    shape = shape_of(kind, package, packages)
    if shape in ("struct", "n", "i", "q"):
        if "omitzero" in options:
            return ""
        return "s" if shape == "struct" else shape
    if may_omit:
        return "e"
    return "z" if shape == "scalar" else "n"


def shape_of(kind: str, package: Package, packages: list[Package]) -> str:
    """struct, scalar, list, or the letter of a type with a JSON form of its own."""
    if kind.startswith(("[]", "map[")):
        return "list"
    if kind in SCALARS:
        return "scalar"
    name = kind.rpartition(".")[2]
    if name in SPECIAL:
        return SPECIAL[name]
    holder, name = locate(name, package, packages)
    return "struct" if name in holder.structs else shape_of(holder.named[name], holder, packages)


def locate(name: str, package: Package, packages: list[Package]) -> tuple[Package, str]:
    """Where a type is declared: in the same package, else in one of those all import."""
    shared = [each for each in packages if each.prefix.endswith((".core.v1", ".meta.v1"))]
    for candidate in (package, *shared, *packages):
        if name in candidate.structs or name in candidate.named:
            return candidate, name
    raise LookupError(f"{package.prefix}: no type {name}")


if __name__ == "__main__":
    main()
