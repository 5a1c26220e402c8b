"""The two kinds of metrics.k8s.io, for discovery, OpenAPI and tables."""

from datetime import datetime
from functools import partial

from kilonova.api.json import JsonObject
from kilonova.api.quantity import Quantity, parse
from kilonova.local.kinds.base import Behavior, Column, Kind
from kilonova.local.kinds.columns import NAME
from kilonova.local.kinds.walk import objects, part
from kilonova.local.schema.node import read

GROUP = "metrics.k8s.io"
VERSION = "v1beta1"

_USAGE: JsonObject = {
    "description": "What is used, by resource; of memory, the working set.",
    "type": "object",
    "additionalProperties": {"type": "string"},
}
_INTERVAL: JsonObject = {
    "timestamp": {
        "description": "The end of the interval that was measured.",
        "type": "string",
        "format": "date-time",
    },
    "window": {"description": "How long the interval is.", "type": "string"},
}
_NODE: JsonObject = {
    "description": "NodeMetrics is what a node uses.",
    "type": "object",
    "properties": {**_INTERVAL, "usage": _USAGE},
}
_POD: JsonObject = {
    "description": "PodMetrics is what the containers of a pod use.",
    "type": "object",
    "properties": {
        **_INTERVAL,
        "containers": {
            "description": "Each container that runs.",
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
        _kind("nodes", "NodeMetrics", _NODE, namespaced=False),
        _kind("pods", "PodMetrics", _POD, namespaced=True),
    ]


def _kind(plural: str, kind: str, schema: JsonObject, *, namespaced: bool) -> Kind:
    return Kind(
        group=GROUP,
        version=VERSION,
        kind=kind,
        plural=plural,
        singular="",
        namespaced=namespaced,
        verbs=("get", "list"),
        load_schema=partial(read, schema),
        behavior=_Printed(),
        custom=True,
    )


def _used(resource: str) -> Column:
    def value(obj: JsonObject, _: datetime) -> str:
        shares = [part(obj, "usage")] if "usage" in obj else []
        shares += [part(each, "usage") for each in objects(obj, "containers")]
        total = sum((parse(each[resource]) for each in shares), Quantity(0))
        return str(total)

    return Column(resource, "string", value, format="quantity")


class _Printed(Behavior):
    columns = (
        NAME,
        _used("cpu"),
        _used("memory"),
        Column("Window", "string", lambda obj, _: obj["window"], format="duration"),
    )
