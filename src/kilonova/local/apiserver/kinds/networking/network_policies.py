"""NetworkPolicies, ServiceCIDRs and IPAddresses."""

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError
from kilonova.local.apimachinery.unstructured import (
    ensure_object,
    nested_object,
    nested_objects,
    nested_value,
)
from kilonova.local.apiserver.kinds.columns import AGE, NAME, NONE, format_label_selector
from kilonova.local.apiserver.kinds.kind import PrinterColumn
from kilonova.local.apiserver.kinds.strategy import BuiltinStrategy, register_strategy
from kilonova.local.apiserver.kinds.validation import validate_enum, validate_label_selector


@register_strategy("networking.k8s.io", "NetworkPolicy")
class NetworkPolicyStrategy(BuiltinStrategy):
    """Accepted, but not enforced: the response has a warning."""

    has_generation = True
    columns = (
        NAME,
        PrinterColumn(
            "Pod-Selector",
            "string",
            lambda obj, _: format_label_selector(nested_value(obj, "spec", "podSelector")) or NONE,
        ),
        AGE,
    )

    def set_defaults(self, obj: JsonObject) -> None:
        spec = ensure_object(obj, "spec")
        for direction in ("ingress", "egress"):
            for rule in nested_objects(spec, direction):
                for port in nested_objects(rule, "ports"):
                    port.setdefault("protocol", "TCP")
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        spec = nested_object(obj, "spec")
        problems = validate_label_selector(spec.get("podSelector"), "spec.podSelector")
        for index, kind in enumerate(spec.get("policyTypes") or ()):
            problems += validate_enum(kind, f"spec.policyTypes[{index}]", ["Ingress", "Egress"])
        return problems

    def warnings(self, obj: JsonObject) -> list[str]:
        return [_NOT_ENFORCED]


_NOT_ENFORCED = "NetworkPolicy is not enforced on this cluster: all pods can reach each other"


@register_strategy("networking.k8s.io", "ServiceCIDR")
class ServiceCIDRStrategy(BuiltinStrategy):
    """Networks that cluster IPs are allocated from."""

    columns = (
        NAME,
        PrinterColumn(
            "CIDRs", "string", lambda obj, _: ",".join(nested_value(obj, "spec", "cidrs") or ())
        ),
        AGE,
    )


def _parent(obj: JsonObject) -> str:
    parent = nested_value(obj, "spec", "parentRef")
    if not parent:
        return NONE
    group = parent.get("group")
    resource = parent.get("resource", "") + (f".{group}" if group else "")
    namespace = [parent["namespace"]] if parent.get("namespace") else []
    return "/".join([resource.lower(), *namespace, parent.get("name", "")])


@register_strategy("networking.k8s.io", "IPAddress")
class IPAddressStrategy(BuiltinStrategy):
    """An allocated cluster IP."""

    columns = (NAME, PrinterColumn("ParentRef", "string", lambda obj, _: _parent(obj)))
