"""Services."""

from collections.abc import Callable, Iterator

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, duplicate, forbidden_field, invalid_value, required
from kilonova.local.kinds.addresses import Addresses, needs_node_ports
from kilonova.local.kinds.base import Column
from kilonova.local.kinds.columns import AGE, NAME, NONE, labels, text, wide
from kilonova.local.kinds.ingresses import balanced_addresses
from kilonova.local.kinds.rules import one_of, port_number
from kilonova.local.kinds.strategy import Strategy, strategy
from kilonova.local.kinds.walk import at, inside, objects, part, strings
from kilonova.local.names import dns_label, dns_subdomain, label_problems
from kilonova.local.schema.node import Schema

_AFFINITY_SECONDS = 10800
_TYPES = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]


def _external(obj: JsonObject) -> str:
    spec = part(obj, "spec")
    kind, addresses = spec.get("type"), list(spec.get("externalIPs") or ())
    if kind == "ExternalName":
        return spec.get("externalName", "")
    if kind == "LoadBalancer":
        balanced = balanced_addresses(obj)
        addresses = [*(balanced.split(",") if balanced else ()), *addresses]
        return ",".join(addresses) or "<pending>"
    return ",".join(addresses) or NONE


def _ports(obj: JsonObject) -> str:
    shown: list[str] = []
    for port in objects(obj, "spec", "ports"):
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port.get('port')}{node}/{port.get('protocol')}")
    return ",".join(shown) or NONE


@strategy("", "Service")
class Services(Strategy):
    """A name and an address for pods. `addresses` gives out what is unique in the cluster."""

    create_on_update = True
    shown_when_deleted = True
    columns = (
        NAME,
        text("Type", "spec", "type"),
        Column("Cluster-IP", "string", lambda obj, _: (at(obj, "spec", "clusterIPs") or [NONE])[0]),
        Column("External-IP", "string", lambda obj, _: _external(obj)),
        Column("Port(s)", "string", lambda obj, _: _ports(obj)),
        AGE,
        wide("Selector", lambda obj: labels(at(obj, "spec", "selector"))),
    )

    def __init__(self, load_schema: Callable[[], Schema]) -> None:
        super().__init__(load_schema)
        self.addresses = Addresses()

    def fill(self, obj: JsonObject) -> None:
        spec = inside(obj, "spec")
        kind = spec.setdefault("type", "ClusterIP")
        if spec.setdefault("sessionAffinity", "None") == "None":
            spec.pop("sessionAffinityConfig", None)
        elif at(spec, "sessionAffinityConfig", "clientIP", "timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": _AFFINITY_SECONDS}}
        for port in objects(spec, "ports"):
            port.setdefault("protocol", "TCP")
            if port.get("targetPort") in (None, 0, ""):
                port["targetPort"] = port.get("port")
        if kind in ("NodePort", "LoadBalancer") or (
            kind == "ClusterIP" and spec.get("externalIPs")
        ):
            spec.setdefault("externalTrafficPolicy", "Cluster")
        if kind != "ExternalName":
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if kind == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)

    def prepare_create(self, obj: JsonObject) -> None:
        super().prepare_create(obj)
        spec = obj["spec"]
        if spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        _fill_families(spec, {})
        if not _family_problems(spec):
            self.addresses.assign(obj)

    def prepare_update(self, new: JsonObject, old: JsonObject) -> None:
        super().prepare_update(new, old)
        spec, before = new["spec"], old["spec"]
        _drop_what_no_longer_applies(spec, before)
        _keep_allocated(spec, before)
        _follow_address(spec, before)
        _fill_families(spec, before)
        if spec.get("type") != "LoadBalancer":
            inside(new, "status")["loadBalancer"] = {}
        if not _family_problems(spec) and not _moved(spec, before):
            self.addresses.assign(new)

    def problems(self, obj: JsonObject) -> list[Problem]:
        spec = obj["spec"]
        problems = _family_problems(spec) or list(_spec_problems(spec))
        if problems or obj["metadata"].get("resourceVersion"):
            return problems
        return self.addresses.problems(obj)

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[Problem]:
        spec, before = new["spec"], old["spec"]
        if _family_problems(spec):
            return []
        if _moved(spec, before):
            addresses = strings(spec, "clusterIPs")
            return [invalid_value("spec.clusterIPs[0]", addresses, "may not change once set")]
        return self.addresses.problems(new)

    def valid_name(self, name: str) -> str | None:
        return dns_label(name)


def _moved(spec: JsonObject, before: JsonObject) -> bool:
    if "ExternalName" in (spec.get("type"), before.get("type")):
        return False
    earlier = strings(before, "clusterIPs")
    return bool(earlier) and strings(spec, "clusterIPs")[:1] != earlier[:1]


def _follow_address(spec: JsonObject, before: JsonObject) -> None:
    """The list of addresses follows the single one, where only that was changed."""
    if spec.get("clusterIP") == before.get("clusterIP"):
        return
    if strings(spec, "clusterIPs") == strings(before, "clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]] if spec.get("clusterIP") else []
        if not spec["clusterIPs"]:
            del spec["clusterIPs"]


def _family_problems(spec: JsonObject) -> list[Problem]:
    """Only IPv4 is there, but for services whose addresses are somebody else's business."""
    unselected = spec.get("clusterIP") == "None" and not spec.get("selector")
    if spec.get("type") == "ExternalName" or unselected:
        return []
    problems: list[Problem] = []
    if spec.get("ipFamilyPolicy") == "RequireDualStack":
        detail = "this cluster is not configured for dual-stack services"
        problems.append(invalid_value("spec.ipFamilyPolicy", "RequireDualStack", detail))
    problems += [
        invalid_value(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")
        for index, family in enumerate(strings(spec, "ipFamilies"))
        if family != "IPv4"
    ]
    return problems


def _fill_families(spec: JsonObject, before: JsonObject) -> None:
    if spec.get("type") == "ExternalName":
        return
    unselected = spec.get("clusterIP") == "None" and not spec.get("selector")
    policy = before.get("ipFamilyPolicy") or ("RequireDualStack" if unselected else "SingleStack")
    policy = spec.setdefault("ipFamilyPolicy", policy)
    families = spec.setdefault("ipFamilies", list(before.get("ipFamilies") or ["IPv4"]))
    if unselected and policy != "SingleStack" and len(families) == 1:
        spec["ipFamilies"] = [*families, "IPv6" if families[0] == "IPv4" else "IPv4"]


def _drop_what_no_longer_applies(spec: JsonObject, before: JsonObject) -> None:
    """A change of type takes back what the old type had been given, unless it changes as well."""

    def drop(*fields: str) -> None:
        for field in fields:
            if spec.get(field) == before.get(field):
                spec.pop(field, None)

    if spec["type"] == "ExternalName" and before.get("type") != "ExternalName":
        drop("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy")
    if needs_node_ports(before) and not needs_node_ports(spec):
        earlier = [port.get("nodePort") for port in objects(before, "ports")]
        if [port.get("nodePort") for port in objects(spec, "ports")] == earlier:
            for port in objects(spec, "ports"):
                port.pop("nodePort", None)
    if before.get("type") == "LoadBalancer" and spec["type"] != "LoadBalancer":
        drop("allocateLoadBalancerNodePorts", "loadBalancerClass")
    if spec["type"] in ("ClusterIP", "ExternalName") and not spec.get("externalIPs"):
        drop("externalTrafficPolicy")


def _keep_allocated(spec: JsonObject, before: JsonObject) -> None:
    """A client that leaves out what the server had given keeps it."""
    if "ExternalName" not in (spec["type"], before.get("type")):
        for field in ("clusterIP", "clusterIPs"):
            if not spec.get(field) and before.get(field):
                spec[field] = before[field]
    if needs_node_ports(spec) and needs_node_ports(before):
        earlier = {port.get("name"): port.get("nodePort") for port in objects(before, "ports")}
        used = {port.get("nodePort") for port in objects(spec, "ports")}
        for port in objects(spec, "ports"):
            known = earlier.get(port.get("name"))
            if not port.get("nodePort") and known and known not in used:
                port["nodePort"] = known


def _spec_problems(spec: JsonObject) -> Iterator[Problem]:
    kind = spec.get("type")
    ports, headless = objects(spec, "ports"), spec.get("clusterIP") == "None"
    if not ports and not headless and kind != "ExternalName":
        yield required("spec.ports")
    if headless and kind in ("LoadBalancer", "NodePort"):
        detail = f"may not be set to 'None' for {kind} services"
        yield invalid_value("spec.clusterIPs[0]", "None", detail)
    if kind == "ExternalName":
        for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(field):
                detail = "may not be set for ExternalName services"
                yield forbidden_field(f"spec.{field}", detail)
        name = (spec.get("externalName") or "").removesuffix(".")
        if not name:
            yield required("spec.externalName")
        elif trouble := dns_subdomain(name):
            yield invalid_value("spec.externalName", name, trouble)
    yield from _port_problems(ports, kind)
    yield from label_problems(spec.get("selector"), "spec.selector")
    yield from one_of(spec.get("sessionAffinity"), "spec.sessionAffinity", ["ClientIP", "None"])
    yield from one_of(kind, "spec.type", _TYPES)


def _port_problems(ports: list[JsonObject], kind: str | None) -> Iterator[Problem]:
    names: set[str] = set()
    pairs: set[tuple[object, object]] = set()
    for index, port in enumerate(ports):
        path = f"spec.ports[{index}]"
        name = port.get("name", "")
        if not name and len(ports) > 1:
            yield required(f"{path}.name")
        elif name:
            if trouble := dns_label(name):
                yield invalid_value(f"{path}.name", name, trouble)
            if name in names:
                yield duplicate(f"{path}.name", name)
            names.add(name)
        yield from port_number(port.get("port"), f"{path}.port")
        yield from one_of(port.get("protocol"), f"{path}.protocol", ["SCTP", "TCP", "UDP"])
        if isinstance(port.get("targetPort"), int):
            yield from port_number(port["targetPort"], f"{path}.targetPort")
        if kind == "ClusterIP" and port.get("nodePort"):
            detail = "may not be used when `type` is 'ClusterIP'"
            yield forbidden_field(f"{path}.nodePort", detail)
        pair = (port.get("protocol"), port.get("port"))
        if pair in pairs:
            yield duplicate(path, _as_go_shows_it(port))
        pairs.add(pair)


def _as_go_shows_it(port: JsonObject) -> JsonObject:
    """A port in a message: Kubernetes prints its own struct, reduced to what was compared."""
    return {
        "Name": "",
        "Protocol": port.get("protocol"),
        "AppProtocol": None,
        "Port": port.get("port"),
        "TargetPort": 0,
        "NodePort": 0,
    }
