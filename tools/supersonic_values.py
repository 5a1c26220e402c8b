"""Writes what is made from the table of SuperSONIC's keys (`kilonova.serving.supersonic.keys`): the
reference of keys, and the chart's schema and refused keys.

`python -m tools.supersonic_values`; `--check` writes nothing, and fails if a file is stale.
"""

import json
from typing import Any

import yaml

from kilonova.api.json import JsonObject
from kilonova.serving.supersonic.keys import (
    ABSENT,
    KEYS,
    SECTIONS,
    SUBCHARTS,
    Effect,
    ValueKey,
    ValueType,
)
from tools.tables import ROOT, write_tables

CHART = "deploy/helm/supersonic"
REFERENCE = "docs/serving/supersonic-values.md"

_WRITTEN = "written by `python -m tools.supersonic_values`"
_HEADING = f"""<!-- {_WRITTEN} from src/kilonova/serving/supersonic/keys -->
# Values of SuperSONIC, key by key

What each key of a values file of [SuperSONIC](supersonic.md) does here. Fields are those of an
InferenceService (`kubectl explain isvc.spec`); `NAME` is the name of the release.

- **honoured**: it becomes what is said.
- **without effect**: it configures something that is not there; another value is reported.
- **refused**: the values are not converted, and the reason is told.

Every other key is refused as unknown, with the nearest known one; below `prometheus`, `grafana`,
`tempo` and `opentelemetry-collector` other keys are those of the subcharts, and without effect.
Objects are merged into the defaults, lists replace them, and `null` removes them, as Helm does; a
key that needs a value, and a section, have their defaults again. Values of labels, annotations and
node selectors need no quotes: `true` and `5` are taken as texts.
`inferenceServer` is the name of `triton` in newer charts.
"""
_TYPES: dict[ValueType, JsonObject] = {
    ValueType.TEXT: {"type": ["string", "null"]},
    ValueType.FLAG: {"type": ["boolean", "null"]},
    ValueType.WHOLE: {"type": ["integer", "null"]},
    ValueType.NUMBER: {"type": ["number", "null"]},
    ValueType.DURATION: {"type": ["string", "null"]},
    ValueType.TEXTS: {"type": ["array", "null"], "items": {"type": "string"}},
    ValueType.OBJECTS: {"type": ["array", "null"], "items": {"type": "object"}},
    ValueType.OBJECT: {"type": ["object", "null"]},
    ValueType.MAP: {
        "type": ["object", "null"],
        "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
    },
    ValueType.ANYTHING: {},
}


def main() -> None:
    write_tables("tools.supersonic_values", __doc__ or "", render_files, ROOT)


def render_files() -> dict[str, bytes]:
    """The files, by path."""
    return {
        REFERENCE: render_reference().encode(),
        f"{CHART}/values.schema.json": render_schema().encode(),
        f"{CHART}/refused-keys.yaml": render_refused().encode(),
    }


def render_reference() -> str:
    """The page with a table for each section."""
    parts = [_HEADING]
    for title, keys in SECTIONS:
        parts.append(f"## {title}\n\n| key | default | meaning | here |\n|---|---|---|---|\n")
        parts += [_render_row(each) for each in keys]
        parts.append("\n")
    return "".join(f"{each}\n" if each == _HEADING else each for each in parts).rstrip() + "\n"


def _render_row(key: ValueKey) -> str:
    default = "" if key.default is ABSENT else f"`{_format_default(key.default)}`"
    effect = "honoured" if key.effect is Effect.HONOURED else f"**{key.effect}**"
    cells = (f"`{key.name}`", default, key.meaning, f"{effect}: {key.here}")
    return f"| {' | '.join(each.replace('|', chr(92) + '|') for each in cells)} |\n"


def _format_default(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text.replace("\\n", " ").replace("\\\\ ", "")


def render_schema() -> str:
    """The chart's JSON schema: unknown keys and wrong types are refused before anything is
    installed."""
    schema: JsonObject = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of SuperSONIC",
        "description": f"{_WRITTEN.capitalize()}.",
        **_build_object(()),
    }
    for key in KEYS.values():
        _find_properties(schema, key.path)[key.path[-1]] = _build_property(key)
    schema["properties"]["inferenceServer"] = {"$ref": "#/properties/triton"}
    _name_known_keys(schema)
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _build_object(path: tuple[str, ...]) -> JsonObject:
    is_open = path[:1] in SUBCHARTS and path != ("prometheus", "external")
    return {
        "type": ["object", "null"] if path else "object",
        "additionalProperties": is_open,
        "properties": {},
    }


def _find_properties(schema: JsonObject, path: tuple[str, ...]) -> JsonObject:
    """The properties of the object that has a key; objects on the way are added."""
    place = schema
    for number, name in enumerate(path[:-1], 1):
        place = place["properties"].setdefault(name, _build_object(path[:number]))
    return place["properties"]


def _name_known_keys(schema: JsonObject) -> None:
    """Helm's message about an unknown key then lists those that there are."""
    for each in schema.get("properties", {}).values():
        _name_known_keys(each)
    if schema.get("additionalProperties") is False:
        schema["propertyNames"] = {"enum": sorted(schema["properties"])}


def _build_property(key: ValueKey) -> JsonObject:
    built: JsonObject = {"description": f"{key.meaning} {key.here}", **_TYPES[key.type]}
    if key.effect is Effect.REFUSED:
        return {"description": built["description"]}
    if key.choices:
        built["enum"] = [*key.choices, None]
    if key.minimum is not None:
        built["minimum"] = key.minimum
    if key.maximum is not None:
        built["maximum"] = key.maximum
    if key.default is not ABSENT:
        built["default"] = key.default
    return built


def render_refused() -> str:
    """Keys for which the chart fails at once, with the reason."""
    rows = [
        {
            "key": key.name,
            "path": list(key.path),
            "accepted": None if key.default is ABSENT else key.default,
            "reason": key.here,
        }
        for key in KEYS.values()
        if key.effect is Effect.REFUSED
    ]
    return f"# {_WRITTEN.capitalize()}.\n" + yaml.safe_dump(rows, sort_keys=False, width=100)


if __name__ == "__main__":
    main()
