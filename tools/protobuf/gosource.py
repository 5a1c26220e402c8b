"""Parses type declarations from gofmt-formatted Go source.

Not a Go parser: it supports the few forms in which Kubernetes declares its API types (structs with
tagged fields, named basic types, slices and maps), one declaration per line, and rejects others.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

_IMPORT = re.compile(r'^(?:import )?\s*(?:([\w.]+) )?"([^"]+)"$')
_TYPE = re.compile(r"^type (\w+) (?:= )?(.+)$")
_FIELD = re.compile(r"^\t(?:(\w+)\s+)?([*\[\]\w.]+)\s+`(.+)`")
_TAG = re.compile(r'(\w+):"([^"]*)"')


@dataclass(frozen=True)
class TypeName:
    """A Go type: the import path of its package, and its name there."""

    package: str  # empty: a basic type
    name: str


@dataclass(frozen=True)
class GoField:
    """A field of a struct. `type` is as written; `embedded` fields have no name of their own."""

    type: str
    embedded: bool
    tags: dict[str, str]


@dataclass
class GoType:
    """A declared type: a struct with its tagged fields, or a named `underlying` type."""

    name: TypeName
    imports: dict[str, str]
    underlying: str = ""
    fields: list[GoField] = field(default_factory=list[GoField])
    comment: str = ""

    @property
    def is_struct(self) -> bool:
        return not self.underlying

    def resolve(self, written: str) -> TypeName:
        """The type that a name (`string`, `PodSpec`, `metav1.Time`) refers to in this file."""
        prefix, dot, name = written.rpartition(".")
        if dot:
            return TypeName(self.imports[prefix], name)
        return TypeName("" if written[0].islower() else self.name.package, written)


def parse_package(import_path: str, folder: Path) -> dict[TypeName, GoType]:
    """All types of a package, except generated ones and those of tests."""
    types: dict[TypeName, GoType] = {}
    for path in sorted(folder.glob("*.go")):
        if not re.search(r"(_test|\.pb|_generated|^zz_generated\..*)\.go$", path.name):
            for found in _parse_file(import_path, path.read_text()):
                types[found.name] = found
    return types


def _parse_file(package: str, text: str) -> list[GoType]:
    imports: dict[str, str] = {}
    types: list[GoType] = []
    struct: GoType | None = None
    comment: list[str] = []
    for line in text.splitlines():
        if line.startswith("//"):
            comment.append(line)
            continue
        if struct:
            if line == "}":
                struct = None
            elif found := _FIELD.match(line):
                name, written, tags = found.groups()
                struct.fields.append(GoField(written, name is None, dict(_TAG.findall(tags))))
        elif found := _IMPORT.match(line):
            alias, path = found.groups()
            imports[alias or path.rsplit("/", 1)[-1]] = path
        elif found := _TYPE.match(line):
            name, declared = found.groups()
            declared = re.sub(r"\s*//.*$", "", declared)
            declaration = GoType(TypeName(package, name), imports, comment="\n".join(comment))
            if declared == "struct {":
                struct = declaration
            elif declared != "struct{}":
                declaration.underlying = declared
            types.append(declaration)
        comment = []
    return types
