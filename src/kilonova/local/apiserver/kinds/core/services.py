"""Services."""

from collections.abc import Callable, Iterator

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import (
    FieldError,
    duplicate_value,
    forbidden_value,
    invalid_value,
    required_value,
)
from kilonova.local.apimachinery.names import dns_label_error, dns_subdomain_error, validate_labels
from kilonova.local.apimachinery.unstructured import (
    ensure_object,
    nested_object,
    nested_objects,
    nested_strings,
    nested_value,
)
from kilonova.local.apiserver.kinds.columns import (
    AGE,
    NAME,
    NONE,
    format_labels,
    text_column,
    wide_column,
)
from kilonova.local.apiserver.kinds.core.service_allocator import ServiceAllocator, needs_node_ports
from kilonova.local.apiserver.kinds.kind import PrinterColumn
from kilonova.local.apiserver.kinds.networking.ingresses import load_balancer_addresses
from kilonova.local.apiserver.kinds.strategy import BuiltinStrategy, register_strategy
from kilonova.local.apiserver.kinds.validation import validate_enum, validate_port_number
from kilonova.local.apiserver.schema.node import Schema

_SESSION_AFFINITY_SECONDS = 10800
_TYPES = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"]


def _external_addresses(obj: JsonObject) -> str:
    spec = nested_object(obj, "spec")
    kind, addresses = spec.get("type"), list(spec.get("externalIPs") or ())
    if kind == "ExternalName":
        return spec.get("externalName", "")
    if kind == "LoadBalancer":
        balanced = load_balancer_addresses(obj)
        addresses = [*(balanced.split(",") if balanced else ()), *addresses]
        return ",".join(addresses) or "<pending>"
    return ",".join(addresses) or NONE


def _ports(obj: JsonObject) -> str:
    formatted: list[str] = []
    for port in nested_objects(obj, "spec", "ports"):
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        formatted.append(f"{port.get('port')}{node}/{port.get('protocol')}")
    return ",".join(formatted) or NONE


@register_strategy("", "Service")
class ServiceStrategy(BuiltinStrategy):
    """A service. The allocator assigns cluster IPs and node ports."""

    allows_create_on_update = True
    returns_deleted_object = True
    columns = (
        NAME,
        text_column("Type", "spec", "type"),
        PrinterColumn(
            "Cluster-IP",
            "string",
            lambda obj, _: (nested_value(obj, "spec", "clusterIPs") or [NONE])[0],
        ),
        PrinterColumn("External-IP", "string", lambda obj, _: _external_addresses(obj)),
        PrinterColumn("Port(s)", "string", lambda obj, _: _ports(obj)),
        AGE,
        wide_column("Selector", lambda obj: format_labels(nested_value(obj, "spec", "selector"))),
    )

    def __init__(self, load_schema: Callable[[], Schema]) -> None:
        super().__init__(load_schema)
        self.allocator = ServiceAllocator()

    def set_defaults(self, obj: JsonObject) -> None:
        spec = ensure_object(obj, "spec")
        kind = spec.setdefault("type", "ClusterIP")
        if spec.setdefault("sessionAffinity", "None") == "None":
            spec.pop("sessionAffinityConfig", None)
        elif nested_value(spec, "sessionAffinityConfig", "clientIP", "timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {
                "clientIP": {"timeoutSeconds": _SESSION_AFFINITY_SECONDS}
            }
        for port in nested_objects(spec, "ports"):
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
        _set_ip_families(spec, {})
        if not _validate_ip_families(spec):
            self.allocator.allocate(obj)

    def prepare_update(self, new: JsonObject, old: JsonObject) -> None:
        super().prepare_update(new, old)
        spec, before = new["spec"], old["spec"]
        _drop_type_specific_fields(spec, before)
        _preserve_allocated(spec, before)
        _sync_cluster_ips(spec, before)
        _set_ip_families(spec, before)
        if spec.get("type") != "LoadBalancer":
            ensure_object(new, "status")["loadBalancer"] = {}
        if not _validate_ip_families(spec) and not _is_cluster_ip_changed(spec, before):
            self.allocator.allocate(new)

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        spec = obj["spec"]
        problems = _validate_ip_families(spec) or list(_validate_spec(spec))
        if problems or obj["metadata"].get("resourceVersion"):
            return problems
        return self.allocator.validate(obj)

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[FieldError]:
        spec, before = new["spec"], old["spec"]
        if _validate_ip_families(spec):
            return []
        if _is_cluster_ip_changed(spec, before):
            addresses = nested_strings(spec, "clusterIPs")
            return [invalid_value("spec.clusterIPs[0]", addresses, "may not change once set")]
        return self.allocator.validate(new)

    def name_error(self, name: str) -> str | None:
        return dns_label_error(name)


def _is_cluster_ip_changed(spec: JsonObject, before: JsonObject) -> bool:
    if "ExternalName" in (spec.get("type"), before.get("type")):
        return False
    earlier = nested_strings(before, "clusterIPs")
    return bool(earlier) and nested_strings(spec, "clusterIPs")[:1] != earlier[:1]


def _sync_cluster_ips(spec: JsonObject, before: JsonObject) -> None:
    """Update `clusterIPs` if only `clusterIP` was changed."""
    if spec.get("clusterIP") == before.get("clusterIP"):
        return
    if nested_strings(spec, "clusterIPs") == nested_strings(before, "clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]] if spec.get("clusterIP") else []
        if not spec["clusterIPs"]:
            del spec["clusterIPs"]


def _validate_ip_families(spec: JsonObject) -> list[FieldError]:
    """Only IPv4 is available, except for headless services without selector and ExternalName."""
    is_headless_without_selector = spec.get("clusterIP") == "None" and not spec.get("selector")
    if spec.get("type") == "ExternalName" or is_headless_without_selector:
        return []
    problems: list[FieldError] = []
    if spec.get("ipFamilyPolicy") == "RequireDualStack":
        detail = "this cluster is not configured for dual-stack services"
        problems.append(invalid_value("spec.ipFamilyPolicy", "RequireDualStack", detail))
    problems += [
        invalid_value(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")
        for index, family in enumerate(nested_strings(spec, "ipFamilies"))
        if family != "IPv4"
    ]
    return problems


def _set_ip_families(spec: JsonObject, before: JsonObject) -> None:
    if spec.get("type") == "ExternalName":
        return
    is_headless_without_selector = spec.get("clusterIP") == "None" and not spec.get("selector")
    policy = before.get("ipFamilyPolicy") or (
        "RequireDualStack" if is_headless_without_selector else "SingleStack"
    )
    policy = spec.setdefault("ipFamilyPolicy", policy)
    families = spec.setdefault("ipFamilies", list(before.get("ipFamilies") or ["IPv4"]))
    if is_headless_without_selector and policy != "SingleStack" and len(families) == 1:
        spec["ipFamilies"] = [*families, "IPv6" if families[0] == "IPv4" else "IPv4"]


def _drop_type_specific_fields(spec: JsonObject, before: JsonObject) -> None:
    """After a change of type, drop fields allocated for the old type that did not change."""

    def drop(*fields: str) -> None:
        for field in fields:
            if spec.get(field) == before.get(field):
                spec.pop(field, None)

    if spec["type"] == "ExternalName" and before.get("type") != "ExternalName":
        drop("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy")
    if needs_node_ports(before) and not needs_node_ports(spec):
        earlier = [port.get("nodePort") for port in nested_objects(before, "ports")]
        if [port.get("nodePort") for port in nested_objects(spec, "ports")] == earlier:
            for port in nested_objects(spec, "ports"):
                port.pop("nodePort", None)
    if before.get("type") == "LoadBalancer" and spec["type"] != "LoadBalancer":
        drop("allocateLoadBalancerNodePorts", "loadBalancerClass")
    if spec["type"] in ("ClusterIP", "ExternalName") and not spec.get("externalIPs"):
        drop("externalTrafficPolicy")


def _preserve_allocated(spec: JsonObject, before: JsonObject) -> None:
    """An update that omits allocated fields keeps their values."""
    if "ExternalName" not in (spec["type"], before.get("type")):
        for field in ("clusterIP", "clusterIPs"):
            if not spec.get(field) and before.get(field):
                spec[field] = before[field]
    if needs_node_ports(spec) and needs_node_ports(before):
        earlier = {
            port.get("name"): port.get("nodePort") for port in nested_objects(before, "ports")
        }
        used = {port.get("nodePort") for port in nested_objects(spec, "ports")}
        for port in nested_objects(spec, "ports"):
            known = earlier.get(port.get("name"))
            if not port.get("nodePort") and known and known not in used:
                port["nodePort"] = known


def _validate_spec(spec: JsonObject) -> Iterator[FieldError]:
    kind = spec.get("type")
    ports, headless = nested_objects(spec, "ports"), spec.get("clusterIP") == "None"
    if not ports and not headless and kind != "ExternalName":
        yield required_value("spec.ports")
    if headless and kind in ("LoadBalancer", "NodePort"):
        detail = f"may not be set to 'None' for {kind} services"
        yield invalid_value("spec.clusterIPs[0]", "None", detail)
    if kind == "ExternalName":
        for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(field):
                detail = "may not be set for ExternalName services"
                yield forbidden_value(f"spec.{field}", detail)
        name = (spec.get("externalName") or "").removesuffix(".")
        if not name:
            yield required_value("spec.externalName")
        elif error := dns_subdomain_error(name):
            yield invalid_value("spec.externalName", name, error)
    yield from _validate_ports(ports, kind)
    yield from validate_labels(spec.get("selector"), "spec.selector")
    yield from validate_enum(
        spec.get("sessionAffinity"), "spec.sessionAffinity", ["ClientIP", "None"]
    )
    yield from validate_enum(kind, "spec.type", _TYPES)


def _validate_ports(ports: list[JsonObject], kind: str | None) -> Iterator[FieldError]:
    names: set[str] = set()
    pairs: set[tuple[object, object]] = set()
    for index, port in enumerate(ports):
        path = f"spec.ports[{index}]"
        name = port.get("name", "")
        if not name and len(ports) > 1:
            yield required_value(f"{path}.name")
        elif name:
            if error := dns_label_error(name):
                yield invalid_value(f"{path}.name", name, error)
            if name in names:
                yield duplicate_value(f"{path}.name", name)
            names.add(name)
        yield from validate_port_number(port.get("port"), f"{path}.port")
        yield from validate_enum(port.get("protocol"), f"{path}.protocol", ["SCTP", "TCP", "UDP"])
        if isinstance(port.get("targetPort"), int):
            yield from validate_port_number(port["targetPort"], f"{path}.targetPort")
        if kind == "ClusterIP" and port.get("nodePort"):
            detail = "may not be used when `type` is 'ClusterIP'"
            yield forbidden_value(f"{path}.nodePort", detail)
        pair = (port.get("protocol"), port.get("port"))
        if pair in pairs:
            yield duplicate_value(path, _go_format(port))
        pairs.add(pair)


def _go_format(port: JsonObject) -> JsonObject:
    """A port as Go prints the part of Kubernetes' struct that was compared."""
    return {
        "Name": "",
        "Protocol": port.get("protocol"),
        "AppProtocol": None,
        "Port": port.get("port"),
        "TargetPort": 0,
        "NodePort": 0,
    }
