"""Generate the descriptions of `kubectl get` columns from the pinned Kubernetes module.

`src/kilonova/local/data/columns.json.gz` maps a kind to its columns and their descriptions; under
the empty name are the columns that every object has. Names, types and values of the columns are in
our code; only the descriptions are generated. The output is deterministic for the same pin.
`--check` writes nothing and fails if the table is stale.
"""

import json
import re
from functools import cache

from tools.tables import find_module, write_tables

PRINTERS = "pkg/printers/internalversion/printers.go"

BLOCK = re.compile(
    r"(\w+) :?= (?:append\(\w+, )?\[\]metav1\.TableColumnDefinition\{\n(.*?)\n\t\}", re.DOTALL
)
COLUMN = re.compile(r'\{Name: "([^"]+)".*?Description: (.*?)\},?\s*$', re.MULTILINE)
DOCUMENTED = re.compile(r'(\w+)\.(\w+)\{\}(\.\w+)?\.SwaggerDoc\(\)\["(\w+)"\]')
HANDLER = re.compile(r"TableHandler\((\w+), print(\w+)\)")
PRINTER = re.compile(r"^func print(\w+)\(\w+ \*\w+\.(\w+),", re.MULTILINE)
IMPORT = re.compile(r'^\t(\w+) "(k8s\.io/[^"]+)"', re.MULTILINE)
SWAGGER = re.compile(r"^var map_(\w+) = map\[string\]string\{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
ENTRY = re.compile(r'^\t("\w*"):\s+(".*"),$', re.MULTILINE)
# A field of a struct whose own type is documented.
FIELD_TYPES = {".InvolvedObject": "ObjectReference"}

Texts = dict[str, dict[str, str]]


def main() -> None:
    write_tables(
        "tools.schemas.columns",
        "Make the table of what each column of `kubectl get` means.",
        lambda: {"columns.json.gz": build_table()},
    )


def build_table() -> bytes:
    """The table as JSON: kind to column to text."""
    source = (find_module("k8s.io/kubernetes") / PRINTERS).read_text()
    packages = dict(IMPORT.findall(source))
    meta = load_swagger_docs(packages["metav1"])["ObjectMeta"]
    described: Texts = {
        "": {
            "Name": meta["name"],
            "Age": meta["creationTimestamp"],
            "Created At": meta["creationTimestamp"],
        }
    }
    columns: Texts = {}
    for name, block in BLOCK.findall(source):
        texts = {column: resolve_text(value, packages) for column, value in COLUMN.findall(block)}
        columns.setdefault(name, {}).update(texts)
    kinds = dict(PRINTER.findall(source))
    for variable, printer in HANDLER.findall(source):
        if not printer.endswith("List") and printer in kinds:
            described[kinds[printer]] = columns[variable]
    return json.dumps(described, sort_keys=True, separators=(",", ":")).encode()


def resolve_text(value: str, packages: dict[str, str]) -> str:
    """A literal, or the API module's documentation of a field."""
    match = DOCUMENTED.fullmatch(value)
    if match is None:
        return json.loads(value)
    package, name, field, key = match.groups()
    return load_swagger_docs(packages[package])[FIELD_TYPES.get(field or "", name)].get(key, "")


@cache
def load_swagger_docs(package: str) -> Texts:
    """The documented types of a Go package."""
    for path in ("k8s.io/api", "k8s.io/apimachinery"):
        if package.startswith(path + "/"):
            folder = find_module(path) / package.removeprefix(path + "/")
            source = (folder / "types_swagger_doc_generated.go").read_text()
            return {
                name: {json.loads(key): json.loads(entry) for key, entry in ENTRY.findall(entries)}
                for name, entries in SWAGGER.findall(source)
            }
    raise LookupError(f"{package} is in none of the modules that document their types")


if __name__ == "__main__":
    main()
