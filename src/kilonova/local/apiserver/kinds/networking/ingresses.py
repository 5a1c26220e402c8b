"""Ingresses and IngressClasses."""

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError, invalid_value, required_value
from kilonova.local.apimachinery.unstructured import (
    ensure_object,
    nested_object,
    nested_objects,
    nested_value,
)
from kilonova.local.apiserver.kinds.columns import AGE, NAME, NONE, format_first_few, text_column
from kilonova.local.apiserver.kinds.kind import PrinterColumn
from kilonova.local.apiserver.kinds.strategy import BuiltinStrategy, register_strategy
from kilonova.local.apiserver.kinds.validation import validate_enum

_DEFAULT = "ingressclass.kubernetes.io/is-default-class"


def _hosts(obj: JsonObject) -> str:
    hosts = [rule["host"] for rule in nested_objects(obj, "spec", "rules") if rule.get("host")]
    return format_first_few(hosts) or "*"


def load_balancer_addresses(obj: JsonObject) -> str:
    """The addresses of the load balancer."""
    found = nested_objects(obj, "status", "loadBalancer", "ingress")
    addresses = {each.get("ip") or each.get("hostname") or "" for each in found}
    return ",".join(sorted(addresses - {""}))


@register_strategy("networking.k8s.io", "Ingress")
class IngressStrategy(BuiltinStrategy):
    """HTTP routes by host and path."""

    has_generation = True
    columns = (
        NAME,
        text_column("Class", "spec", "ingressClassName", missing=NONE),
        PrinterColumn("Hosts", "string", lambda obj, _: _hosts(obj)),
        PrinterColumn("Address", "string", lambda obj, _: load_balancer_addresses(obj)),
        PrinterColumn(
            "Ports",
            "string",
            lambda obj, _: "80, 443" if nested_value(obj, "spec", "tls") else "80",
        ),
        AGE,
    )

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        spec = nested_object(obj, "spec")
        problems: list[FieldError] = []
        if not spec.get("rules") and not spec.get("defaultBackend"):
            detail = "either `defaultBackend` or `rules` must be specified"
            problems.append(invalid_value("spec", nested_objects(spec, "rules"), detail))
        for index, rule in enumerate(nested_objects(spec, "rules")):
            for position, path in enumerate(nested_objects(rule, "http", "paths")):
                item_path = f"spec.rules[{index}].http.paths[{position}]"
                kind = path.get("pathType")
                if not kind:
                    problems.append(
                        required_value(f"{item_path}.pathType", "pathType must be specified")
                    )
                    continue
                allowed = ["Exact", "ImplementationSpecific", "Prefix"]
                problems += validate_enum(kind, f"{item_path}.pathType", allowed)
                url_path = path.get("path", "")
                if kind in ("Exact", "Prefix") and not url_path.startswith("/"):
                    detail = "must be an absolute path"
                    problems.append(invalid_value(f"{item_path}.path", url_path, detail))
        return problems


def _class_name(obj: JsonObject) -> str:
    default = nested_object(obj["metadata"], "annotations").get(_DEFAULT) == "true"
    return obj["metadata"].get("name", "") + (" (default)" if default else "")


def _parameters(obj: JsonObject) -> str:
    parameters = nested_value(obj, "spec", "parameters")
    if not parameters:
        return NONE
    group = parameters.get("apiGroup")
    kind = parameters["kind"] + (f".{group}" if group is not None else "")
    return f"{kind}/{parameters['name']}"


@register_strategy("networking.k8s.io", "IngressClass")
class IngressClassStrategy(BuiltinStrategy):
    """The controller that implements Ingresses of a class."""

    has_generation = True
    columns = (
        PrinterColumn("Name", "string", lambda obj, _: _class_name(obj), format="name"),
        text_column("Controller", "spec", "controller"),
        PrinterColumn("Parameters", "string", lambda obj, _: _parameters(obj)),
        AGE,
    )

    def set_defaults(self, obj: JsonObject) -> None:
        if parameters := ensure_object(obj, "spec").get("parameters"):
            parameters["scope"] = parameters.get("scope") or "Cluster"

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[FieldError]:
        controller = nested_value(new, "spec", "controller")
        if controller == nested_value(old, "spec", "controller"):
            return []
        return [invalid_value("spec.controller", controller, "field is immutable")]
