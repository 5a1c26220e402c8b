"""APIServices and the configuration of API priority: served so that tools find them."""

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, invalid_value
from kilonova.local.kinds.base import Column
from kilonova.local.kinds.columns import AGE, NAME, NONE, number, text
from kilonova.local.kinds.strategy import Strategy, strategy
from kilonova.local.kinds.walk import at, inside, objects, part


def _backend(obj: JsonObject) -> str:
    service = at(obj, "spec", "service")
    return f"{service.get('namespace')}/{service.get('name')}" if service else "Local"


def _available(obj: JsonObject) -> str:
    for condition in objects(obj, "status", "conditions"):
        if condition.get("type") == "Available":
            status = condition.get("status", "")
            return status if status == "True" else f"{status} ({condition.get('reason', '')})"
    return "Unknown"


@strategy("apiregistration.k8s.io", "APIService")
class APIServices(Strategy):
    """A group-version and who serves it."""

    columns = (
        NAME,
        Column(
            "Service",
            "string",
            lambda obj, _: _backend(obj),
            description="The reference to the service that hosts this API endpoint.",
        ),
        Column(
            "Available",
            "string",
            lambda obj, _: _available(obj),
            description="Whether this service is available.",
        ),
        AGE,
    )

    def fill(self, obj: JsonObject) -> None:
        if service := inside(obj, "spec").get("service"):
            service.setdefault("port", 443)

    def problems(self, obj: JsonObject) -> list[Problem]:
        spec = part(obj, "spec")
        wanted = f"{spec.get('version', '')}.{spec.get('group', '')}"
        name = obj["metadata"].get("name", "")
        if name == wanted:
            return []
        detail = f'must be `spec.version+"."+spec.group`: "{wanted}"'
        return [invalid_value("metadata.name", name, detail)]


def _dangling(obj: JsonObject) -> str:
    for condition in objects(obj, "status", "conditions"):
        if condition.get("type") == "Dangling":
            return condition.get("status", "")
    return "?"


@strategy("flowcontrol.apiserver.k8s.io", "FlowSchema")
class FlowSchemas(Strategy):
    """Which requests wait together."""

    has_generation = True
    columns = (
        NAME,
        text("PriorityLevel", "spec", "priorityLevelConfiguration", "name"),
        number("MatchingPrecedence", "spec", "matchingPrecedence", type="string"),
        text("DistinguisherMethod", "spec", "distinguisherMethod", "type", missing=NONE),
        AGE,
        Column("MissingPL", "string", lambda obj, _: _dangling(obj)),
    )

    def fill(self, obj: JsonObject) -> None:
        spec = inside(obj, "spec")
        spec["matchingPrecedence"] = spec.get("matchingPrecedence") or 1000


_QUEUING = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}


def _queuing(name: str, field: str) -> Column:
    def value(obj: JsonObject) -> object:
        queuing = at(obj, "spec", "limited", "limitResponse", "queuing")
        return queuing.get(field, 0) if queuing else NONE

    return Column(name, "string", lambda obj, _: value(obj))


def _shares(obj: JsonObject) -> object:
    limited = at(obj, "spec", "limited")
    return limited.get("nominalConcurrencyShares") if limited else NONE


@strategy("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration")
class PriorityLevelConfigurations(Strategy):
    """How many requests may wait."""

    has_generation = True
    columns = (
        NAME,
        text("Type", "spec", "type"),
        Column("NominalConcurrencyShares", "string", lambda obj, _: _shares(obj)),
        _queuing("Queues", "queues"),
        _queuing("HandSize", "handSize"),
        _queuing("QueueLengthLimit", "queueLengthLimit"),
        AGE,
    )

    def fill(self, obj: JsonObject) -> None:
        spec = inside(obj, "spec")
        for field, shares in (("limited", 30), ("exempt", 0)):
            if (level := spec.get(field)) is not None:
                if level.get("nominalConcurrencyShares") is None:
                    level["nominalConcurrencyShares"] = shares
                level.setdefault("lendablePercent", 0)
        queuing = at(spec, "limited", "limitResponse", "queuing")
        if queuing is not None:
            for field, value in _QUEUING.items():
                queuing[field] = queuing.get(field) or value
