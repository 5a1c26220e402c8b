"""The two kinds of metrics.k8s.io, for discovery, OpenAPI and tables."""

from datetime import datetime
from functools import partial

from kilonova.api.json import JsonObject
from kilonova.api.quantity import Quantity, parse_quantity
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects
from kilonova.local.apiserver.kinds.columns import NAME
from kilonova.local.apiserver.kinds.kind import Kind, KindStrategy, PrinterColumn
from kilonova.local.apiserver.schema.node import parse_schema

GROUP = "metrics.k8s.io"
VERSION = "v1beta1"

_USAGE: JsonObject = {
    "description": "Usage by resource; for memory, the working set.",
    "type": "object",
    "additionalProperties": {"type": "string"},
}
_INTERVAL: JsonObject = {
    "timestamp": {
        "description": "The end of the measured interval.",
        "type": "string",
        "format": "date-time",
    },
    "window": {"description": "The length of the measured interval.", "type": "string"},
}
_NODE: JsonObject = {
    "description": "NodeMetrics is the resource usage of a node.",
    "type": "object",
    "properties": {**_INTERVAL, "usage": _USAGE},
}
_POD: JsonObject = {
    "description": "PodMetrics is the resource usage of the containers of a pod.",
    "type": "object",
    "properties": {
        **_INTERVAL,
        "containers": {
            "description": "The usage of each running container.",
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "usage": _USAGE},
            },
        },
    },
}


def metrics_kinds() -> list[Kind]:
    """`nodes` and `pods` of the group; without singular names, which belong to the core kinds."""
    return [
        _make_kind("nodes", "NodeMetrics", _NODE, namespaced=False),
        _make_kind("pods", "PodMetrics", _POD, namespaced=True),
    ]


def _make_kind(plural: str, kind: str, schema: JsonObject, *, namespaced: bool) -> Kind:
    return Kind(
        group=GROUP,
        version=VERSION,
        kind=kind,
        plural=plural,
        singular="",
        namespaced=namespaced,
        verbs=("get", "list"),
        load_schema=partial(parse_schema, schema),
        strategy=_MetricsStrategy(),
        is_custom=True,
    )


def _usage_column(resource: str) -> PrinterColumn:
    def value(obj: JsonObject, _: datetime) -> str:
        shares = [nested_object(obj, "usage")] if "usage" in obj else []
        shares += [nested_object(each, "usage") for each in nested_objects(obj, "containers")]
        total = sum((parse_quantity(each[resource]) for each in shares), Quantity(0))
        return str(total)

    return PrinterColumn(resource, "string", value, format="quantity")


class _MetricsStrategy(KindStrategy):
    columns = (
        NAME,
        _usage_column("cpu"),
        _usage_column("memory"),
        PrinterColumn("Window", "string", lambda obj, _: obj["window"], format="duration"),
    )
