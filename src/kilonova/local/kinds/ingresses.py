"""Ingresses and IngressClasses."""

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, invalid_value, required
from kilonova.local.kinds.base import Column
from kilonova.local.kinds.columns import AGE, NAME, NONE, first_few, text
from kilonova.local.kinds.rules import one_of
from kilonova.local.kinds.strategy import Strategy, strategy
from kilonova.local.kinds.walk import at, inside, objects, part

_DEFAULT = "ingressclass.kubernetes.io/is-default-class"


def _hosts(obj: JsonObject) -> str:
    hosts = [rule["host"] for rule in objects(obj, "spec", "rules") if rule.get("host")]
    return first_few(hosts) or "*"


def balanced_addresses(obj: JsonObject) -> str:
    """Where the load balancer is reached."""
    found = objects(obj, "status", "loadBalancer", "ingress")
    addresses = {each.get("ip") or each.get("hostname") or "" for each in found}
    return ",".join(sorted(addresses - {""}))


@strategy("networking.k8s.io", "Ingress")
class Ingresses(Strategy):
    """HTTP from outside, by host and path."""

    has_generation = True
    columns = (
        NAME,
        text("Class", "spec", "ingressClassName", missing=NONE),
        Column("Hosts", "string", lambda obj, _: _hosts(obj)),
        Column("Address", "string", lambda obj, _: balanced_addresses(obj)),
        Column("Ports", "string", lambda obj, _: "80, 443" if at(obj, "spec", "tls") else "80"),
        AGE,
    )

    def problems(self, obj: JsonObject) -> list[Problem]:
        spec = part(obj, "spec")
        problems: list[Problem] = []
        if not spec.get("rules") and not spec.get("defaultBackend"):
            detail = "either `defaultBackend` or `rules` must be specified"
            problems.append(invalid_value("spec", objects(spec, "rules"), detail))
        for index, rule in enumerate(objects(spec, "rules")):
            for position, path in enumerate(objects(rule, "http", "paths")):
                here = f"spec.rules[{index}].http.paths[{position}]"
                kind = path.get("pathType")
                if not kind:
                    problems.append(required(f"{here}.pathType", "pathType must be specified"))
                    continue
                allowed = ["Exact", "ImplementationSpecific", "Prefix"]
                problems += one_of(kind, f"{here}.pathType", allowed)
                written = path.get("path", "")
                if kind in ("Exact", "Prefix") and not written.startswith("/"):
                    detail = "must be an absolute path"
                    problems.append(invalid_value(f"{here}.path", written, detail))
        return problems


def _class_name(obj: JsonObject) -> str:
    default = part(obj["metadata"], "annotations").get(_DEFAULT) == "true"
    return obj["metadata"].get("name", "") + (" (default)" if default else "")


def _parameters(obj: JsonObject) -> str:
    parameters = at(obj, "spec", "parameters")
    if not parameters:
        return NONE
    group = parameters.get("apiGroup")
    kind = parameters["kind"] + (f".{group}" if group is not None else "")
    return f"{kind}/{parameters['name']}"


@strategy("networking.k8s.io", "IngressClass")
class IngressClasses(Strategy):
    """Who serves an Ingress."""

    has_generation = True
    columns = (
        Column("Name", "string", lambda obj, _: _class_name(obj), format="name"),
        text("Controller", "spec", "controller"),
        Column("Parameters", "string", lambda obj, _: _parameters(obj)),
        AGE,
    )

    def fill(self, obj: JsonObject) -> None:
        if parameters := inside(obj, "spec").get("parameters"):
            parameters["scope"] = parameters.get("scope") or "Cluster"

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[Problem]:
        controller = at(new, "spec", "controller")
        if controller == at(old, "spec", "controller"):
            return []
        return [invalid_value("spec.controller", controller, "field is immutable")]
