"""NetworkPolicies, ServiceCIDRs and IPAddresses."""

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem
from kilonova.local.kinds.base import Column
from kilonova.local.kinds.columns import AGE, NAME, NONE, label_selector
from kilonova.local.kinds.rules import label_selector_problems, one_of
from kilonova.local.kinds.strategy import Strategy, strategy
from kilonova.local.kinds.walk import at, inside, objects, part


@strategy("networking.k8s.io", "NetworkPolicy")
class NetworkPolicies(Strategy):
    """Who may talk to whom: accepted, and not enforced. Whoever writes one is told."""

    has_generation = True
    columns = (
        NAME,
        Column(
            "Pod-Selector",
            "string",
            lambda obj, _: label_selector(at(obj, "spec", "podSelector")) or NONE,
        ),
        AGE,
    )

    def fill(self, obj: JsonObject) -> None:
        spec = inside(obj, "spec")
        for direction in ("ingress", "egress"):
            for rule in objects(spec, direction):
                for port in objects(rule, "ports"):
                    port.setdefault("protocol", "TCP")
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]

    def problems(self, obj: JsonObject) -> list[Problem]:
        spec = part(obj, "spec")
        problems = label_selector_problems(spec.get("podSelector"), "spec.podSelector")
        for index, kind in enumerate(spec.get("policyTypes") or ()):
            problems += one_of(kind, f"spec.policyTypes[{index}]", ["Ingress", "Egress"])
        return problems

    def warnings(self, obj: JsonObject) -> list[str]:
        return [_NOT_ENFORCED]


_NOT_ENFORCED = "NetworkPolicy is not enforced on this cluster: all pods can reach each other"


@strategy("networking.k8s.io", "ServiceCIDR")
class ServiceCIDRs(Strategy):
    """Where addresses of services come from."""

    columns = (
        NAME,
        Column("CIDRs", "string", lambda obj, _: ",".join(at(obj, "spec", "cidrs") or ())),
        AGE,
    )


def _parent(obj: JsonObject) -> str:
    parent = at(obj, "spec", "parentRef")
    if not parent:
        return NONE
    group = parent.get("group")
    resource = parent.get("resource", "") + (f".{group}" if group else "")
    namespace = [parent["namespace"]] if parent.get("namespace") else []
    return "/".join([resource.lower(), *namespace, parent.get("name", "")])


@strategy("networking.k8s.io", "IPAddress")
class IPAddresses(Strategy):
    """An address that is taken."""

    columns = (NAME, Column("ParentRef", "string", lambda obj, _: _parent(obj)))
