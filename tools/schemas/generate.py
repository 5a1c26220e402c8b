"""Generate the tables of built-in kinds from the pinned Kubernetes module.

Kubernetes' source contains what its API server publishes: discovery and OpenAPI v3, one file per
group-version. Those of the stable versions become, in `src/kilonova/local/data`:
- `kinds.json`: every resource with its names, scope, verbs and subresources, in the order of
  discovery;
- `schemas.json.gz`: every definition that those kinds reference, without descriptions, and the
  definition of each kind;
- `descriptions.json.gz`: the descriptions of each definition and of its fields.

The output is deterministic for the same pin. `--check` writes nothing and fails if a table is
stale.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from tools.tables import find_module, write_tables

REFERENCE = "#/components/schemas/"
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
# Definitions that no field references, but the paths of every group-version do.
ALWAYS = [META + name for name in ("DeleteOptions", "Patch", "Status", "WatchEvent")]

Json = dict[str, Any]


def main() -> None:
    write_tables(
        "tools.schemas.generate",
        "Make the tables of built-in kinds.",
        lambda: build_tables(find_module("k8s.io/kubernetes")),
    )


def build_tables(source: Path) -> dict[str, bytes]:
    """The contents of the tables, before compression."""
    kinds: list[Json] = []
    definitions: dict[str, Json] = {}
    roots: set[str] = set(ALWAYS)
    for group, version in list_served_kinds(source):
        stem = f"apis__{group}__{version}" if group else f"api__{version}"
        document = load_json(source / "api" / "openapi-spec" / "v3" / f"{stem}_openapi.json")
        known: dict[str, Json] = document["components"]["schemas"]
        definitions.update(known)
        by_kind = select_kind_definitions(known)
        discovery = load_json(source / "api" / "discovery" / f"{stem}.json")
        for kind in list_resources(group, version, discovery["resources"]):
            listed = by_kind.get((group, version, kind["kind"] + "List"))
            kind["listKind"] = kind["kind"] + "List" if listed else ""
            kinds.append(kind)
            roots.update(
                by_kind[key]
                for each in kind["subresources"]
                if (key := (each["group"], each["version"], each["kind"])) in by_kind
            )
        roots.update(
            name
            for (its_group, its_version, _), name in by_kind.items()
            if (its_group, its_version) == (group, version)
        )
    reached = {
        name: definitions[name]
        for name in sorted(collect_reachable_definitions(roots, definitions))
    }
    for name in ALWAYS:
        # Each document adds its own group-version here.
        del reached[name].get("x-kubernetes-group-version-kind", [])[1:]
    names = {"/".join(key): name for key, name in select_kind_definitions(reached).items()}
    descriptions = {name: collect_descriptions(name, each) for name, each in reached.items()}
    schemas = {name: strip_schema(each) for name, each in reached.items()}
    return {
        "kinds.json": format_one_per_line(kinds),
        "schemas.json.gz": format_compact({"kinds": names, "definitions": schemas}),
        "descriptions.json.gz": format_compact(descriptions),
    }


def list_served_kinds(source: Path) -> Iterator[tuple[str, str]]:
    """The stable group-versions, in the order of discovery."""
    yield "", "v1"
    for group in load_json(source / "api" / "discovery" / "aggregated_v2.json")["items"]:
        for each in group["versions"]:
            if re.fullmatch(r"v\d+", each["version"]):
                yield group["metadata"]["name"], each["version"]


def list_resources(group: str, version: str, listed: list[Json]) -> list[Json]:
    """One entry per resource, with its subresources."""
    found: dict[str, Json] = {}
    for each in listed:
        plural, _, subresource = each["name"].partition("/")
        if not subresource:
            found[plural] = {
                "group": group,
                "version": version,
                "kind": each["kind"],
                "plural": plural,
                "singular": each["singularName"],
                "namespaced": each["namespaced"],
                "verbs": each["verbs"],
                "shortNames": each.get("shortNames", []),
                "categories": each.get("categories", []),
                "subresources": [],
            }
    for each in listed:
        plural, _, subresource = each["name"].partition("/")
        if subresource:
            own = "group" not in each and "version" not in each
            found[plural]["subresources"].append(
                {
                    "name": subresource,
                    "kind": each["kind"],
                    "group": group if own else each.get("group", ""),
                    "version": version if own else each["version"],
                    "verbs": each["verbs"],
                }
            )
    return [found[plural] for plural in sorted(found)]


def select_kind_definitions(definitions: dict[str, Json]) -> dict[tuple[str, str, str], str]:
    """The definition of each kind, by group, version and kind."""
    return {
        (each["group"], each["version"], each["kind"]): name
        for name in sorted(definitions)
        for each in definitions[name].get("x-kubernetes-group-version-kind", [])
    }


def collect_reachable_definitions(roots: set[str], definitions: dict[str, Json]) -> set[str]:
    """The roots and all definitions that they reference, transitively."""
    reached: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting.extend(list_references(definitions[name]))
    return reached


def list_references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in cast(Json, value).items():
            if key == "$ref" and isinstance(inner, str):
                yield inner.removeprefix(REFERENCE)
            else:
                yield from list_references(inner)
    elif isinstance(value, list):
        for inner in cast(list[Any], value):
            yield from list_references(inner)


def strip_schema(schema: Json) -> Json:
    """The schema without its descriptions; a property with that name is kept."""
    result: Json = {}
    for key, value in schema.items():
        if key == "properties":
            result[key] = {name: strip_schema(each) for name, each in value.items()}
        elif key in ("items", "additionalProperties", "not") and isinstance(value, dict):
            result[key] = strip_schema(cast(Json, value))
        elif key in ("allOf", "anyOf", "oneOf"):
            result[key] = [strip_schema(each) for each in value]
        elif key != "description":
            result[key] = value
    return result


def collect_descriptions(name: str, schema: Json) -> Json:
    """The description of a definition under the empty name, and of its fields under theirs."""
    texts: Json = {}
    if "description" in schema:
        texts[""] = schema["description"]
    for field, each in schema.get("properties", {}).items():
        if "description" in each:
            texts[field] = each["description"]
        bare = {key: value for key, value in each.items() if key != "description"}
        if strip_schema(bare) != bare:
            raise ValueError(f"{name}.{field}: a nested description is not supported")
    return texts


def load_json(path: Path) -> Json:
    return json.loads(path.read_bytes())


def format_compact(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def format_one_per_line(values: list[Json]) -> bytes:
    lines = ",\n".join(json.dumps(value, separators=(", ", ": ")) for value in values)
    return f"[\n{lines}\n]\n".encode()


if __name__ == "__main__":
    main()
