"""Kinds of apiregistration.k8s.io and flowcontrol.apiserver.k8s.io: served, without effect."""

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError, invalid_value
from kilonova.local.apimachinery.unstructured import (
    ensure_object,
    nested_object,
    nested_objects,
    nested_value,
)
from kilonova.local.apiserver.kinds.columns import AGE, NAME, NONE, number_column, text_column
from kilonova.local.apiserver.kinds.kind import PrinterColumn
from kilonova.local.apiserver.kinds.strategy import BuiltinStrategy, register_strategy


def _backend(obj: JsonObject) -> str:
    service = nested_value(obj, "spec", "service")
    return f"{service.get('namespace')}/{service.get('name')}" if service else "Local"


def _available(obj: JsonObject) -> str:
    for condition in nested_objects(obj, "status", "conditions"):
        if condition.get("type") == "Available":
            status = condition.get("status", "")
            return status if status == "True" else f"{status} ({condition.get('reason', '')})"
    return "Unknown"


@register_strategy("apiregistration.k8s.io", "APIService")
class APIServiceStrategy(BuiltinStrategy):
    """A group-version and the service that serves it."""

    columns = (
        NAME,
        PrinterColumn(
            "Service",
            "string",
            lambda obj, _: _backend(obj),
            description="The reference to the service that hosts this API endpoint.",
        ),
        PrinterColumn(
            "Available",
            "string",
            lambda obj, _: _available(obj),
            description="Whether this service is available.",
        ),
        AGE,
    )

    def set_defaults(self, obj: JsonObject) -> None:
        if service := ensure_object(obj, "spec").get("service"):
            service.setdefault("port", 443)

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        spec = nested_object(obj, "spec")
        expected = f"{spec.get('version', '')}.{spec.get('group', '')}"
        name = obj["metadata"].get("name", "")
        if name == expected:
            return []
        detail = f'must be `spec.version+"."+spec.group`: "{expected}"'
        return [invalid_value("metadata.name", name, detail)]


def _is_priority_level_missing(obj: JsonObject) -> str:
    for condition in nested_objects(obj, "status", "conditions"):
        if condition.get("type") == "Dangling":
            return condition.get("status", "")
    return "?"


@register_strategy("flowcontrol.apiserver.k8s.io", "FlowSchema")
class FlowSchemaStrategy(BuiltinStrategy):
    """Assigns requests to a priority level."""

    has_generation = True
    columns = (
        NAME,
        text_column("PriorityLevel", "spec", "priorityLevelConfiguration", "name"),
        number_column("MatchingPrecedence", "spec", "matchingPrecedence", type="string"),
        text_column("DistinguisherMethod", "spec", "distinguisherMethod", "type", missing=NONE),
        AGE,
        PrinterColumn("MissingPL", "string", lambda obj, _: _is_priority_level_missing(obj)),
    )

    def set_defaults(self, obj: JsonObject) -> None:
        spec = ensure_object(obj, "spec")
        spec["matchingPrecedence"] = spec.get("matchingPrecedence") or 1000


_QUEUING_DEFAULTS = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}


def _queuing_column(name: str, field: str) -> PrinterColumn:
    def value(obj: JsonObject) -> object:
        queuing = nested_value(obj, "spec", "limited", "limitResponse", "queuing")
        return queuing.get(field, 0) if queuing else NONE

    return PrinterColumn(name, "string", lambda obj, _: value(obj))


def _concurrency_shares(obj: JsonObject) -> object:
    limited = nested_value(obj, "spec", "limited")
    return limited.get("nominalConcurrencyShares") if limited else NONE


@register_strategy("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration")
class PriorityLevelConfigurationStrategy(BuiltinStrategy):
    """The concurrency limit and queuing of a priority level."""

    has_generation = True
    columns = (
        NAME,
        text_column("Type", "spec", "type"),
        PrinterColumn(
            "NominalConcurrencyShares", "string", lambda obj, _: _concurrency_shares(obj)
        ),
        _queuing_column("Queues", "queues"),
        _queuing_column("HandSize", "handSize"),
        _queuing_column("QueueLengthLimit", "queueLengthLimit"),
        AGE,
    )

    def set_defaults(self, obj: JsonObject) -> None:
        spec = ensure_object(obj, "spec")
        for field, shares in (("limited", 30), ("exempt", 0)):
            if (level := spec.get(field)) is not None:
                if level.get("nominalConcurrencyShares") is None:
                    level["nominalConcurrencyShares"] = shares
                level.setdefault("lendablePercent", 0)
        queuing = nested_value(spec, "limited", "limitResponse", "queuing")
        if queuing is not None:
            for field, value in _QUEUING_DEFAULTS.items():
                queuing[field] = queuing.get(field) or value
