"""Make the table of what each column of `kubectl get` means, from the pinned Kubernetes module.

`src/kilonova/local/data/columns.json.gz` maps a kind to its columns and their descriptions;
under the empty name are the columns that every object has. Names, types and values of the
columns are code of ours; only the text is looked up. The same pin gives the same bytes.
`--check` writes nothing and fails if the table is stale.
"""

import json
import re
from functools import cache

from tools.tables import generate, module

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
    generate(
        "tools.schemas.columns",
        "Make the table of what each column of `kubectl get` means.",
        lambda: {"columns.json.gz": make_table()},
    )


def make_table() -> bytes:
    """The table as JSON: kind to column to text."""
    source = (module("k8s.io/kubernetes") / PRINTERS).read_text()
    packages = dict(IMPORT.findall(source))
    meta = swagger(packages["metav1"])["ObjectMeta"]
    described: Texts = {
        "": {
            "Name": meta["name"],
            "Age": meta["creationTimestamp"],
            "Created At": meta["creationTimestamp"],
        }
    }
    columns: Texts = {}
    for name, block in BLOCK.findall(source):
        texts = {column: text(value, packages) for column, value in COLUMN.findall(block)}
        columns.setdefault(name, {}).update(texts)
    kinds = dict(PRINTER.findall(source))
    for variable, printer in HANDLER.findall(source):
        if not printer.endswith("List") and printer in kinds:
            described[kinds[printer]] = columns[variable]
    return json.dumps(described, sort_keys=True, separators=(",", ":")).encode()


def text(value: str, packages: dict[str, str]) -> str:
    """A literal, or what the API module says of a field."""
    match = DOCUMENTED.fullmatch(value)
    if match is None:
        return json.loads(value)
    package, name, field, key = match.groups()
    return swagger(packages[package])[FIELD_TYPES.get(field or "", name)].get(key, "")


@cache
def swagger(package: str) -> Texts:
    """The documented types of a Go package."""
    for path in ("k8s.io/api", "k8s.io/apimachinery"):
        if package.startswith(path + "/"):
            folder = module(path) / package.removeprefix(path + "/")
            source = (folder / "types_swagger_doc_generated.go").read_text()
            return {
                name: {json.loads(key): json.loads(entry) for key, entry in ENTRY.findall(entries)}
                for name, entries in SWAGGER.findall(source)
            }
    raise LookupError(f"{package} is in none of the modules that document their types")


if __name__ == "__main__":
    main()
