"""Endpoints and EndpointSlices: the addresses of a service's pods."""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError, invalid_value, required_value
from kilonova.local.apimachinery.unstructured import nested_objects, nested_strings
from kilonova.local.apiserver.kinds.columns import (
    AGE,
    NAME,
    NONE,
    UNSET,
    format_first_few,
    text_column,
)
from kilonova.local.apiserver.kinds.kind import PrinterColumn
from kilonova.local.apiserver.kinds.strategy import BuiltinStrategy, register_strategy
from kilonova.local.apiserver.kinds.validation import validate_enum, validate_immutable

_POD_NETWORK = ip_network("127.64.0.0/11")
"""The pod network of the process node: loopback addresses, which Kubernetes does not allow."""
_INVALID_IP_MESSAGE = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_LOCAL_MULTICAST = (ip_network("224.0.0.0/24"), ip_network("ff02::/16"))
_VERSIONS = {"IPv4": 4, "IPv6": 6}


def _addresses(obj: JsonObject) -> Iterator[str]:
    for subset in nested_objects(obj, "subsets"):
        hosts = [address.get("ip", "") for address in nested_objects(subset, "addresses")]
        ports = nested_objects(subset, "ports")
        if not ports:
            yield from hosts
        for port in ports:
            for host in hosts:
                yield (
                    f"[{host}]:{port.get('port')}" if ":" in host else f"{host}:{port.get('port')}"
                )


def _format_addresses(obj: JsonObject) -> str:
    return format_first_few(list(_addresses(obj))) if nested_objects(obj, "subsets") else NONE


def _slice_ports(obj: JsonObject) -> str:
    ports = [
        str(port.get("port") or port.get("name") or "*") for port in nested_objects(obj, "ports")
    ]
    return format_first_few(ports) or UNSET


def _slice_addresses(obj: JsonObject) -> str:
    addresses = [
        address
        for endpoint in nested_objects(obj, "endpoints")
        for address in endpoint["addresses"] or ()
    ]
    return format_first_few(addresses) or UNSET


@register_strategy("", "Endpoints")
class EndpointsStrategy(BuiltinStrategy):
    """All addresses of a service in one object (deprecated in Kubernetes)."""

    allows_create_on_update = True
    deprecation = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
    columns = (
        NAME,
        PrinterColumn("Endpoints", "string", lambda obj, _: _format_addresses(obj)),
        AGE,
    )

    def set_defaults(self, obj: JsonObject) -> None:
        for subset in nested_objects(obj, "subsets"):
            for port in nested_objects(subset, "ports"):
                port.setdefault("protocol", "TCP")

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        problems: list[FieldError] = []
        for index, subset in enumerate(nested_objects(obj, "subsets")):
            if not subset.get("addresses") and not subset.get("notReadyAddresses"):
                detail = "must specify `addresses` or `notReadyAddresses`"
                problems.append(required_value(f"subsets[{index}]", detail))
            for field in ("addresses", "notReadyAddresses"):
                for at, address in enumerate(nested_objects(subset, field)):
                    path = f"subsets[{index}].{field}[{at}].ip"
                    problems += _validate_address(path, address.get("ip", ""))
        return problems


@register_strategy("discovery.k8s.io", "EndpointSlice")
class EndpointSliceStrategy(BuiltinStrategy):
    """Up to a thousand addresses of a service."""

    has_generation = True
    columns = (
        NAME,
        text_column("AddressType", "addressType"),
        PrinterColumn("Ports", "string", lambda obj, _: _slice_ports(obj)),
        PrinterColumn("Endpoints", "string", lambda obj, _: _slice_addresses(obj)),
        AGE,
    )

    def set_defaults(self, obj: JsonObject) -> None:
        for port in nested_objects(obj, "ports"):
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        if not obj.get("addressType"):
            return [required_value("addressType")]
        problems = validate_enum(obj["addressType"], "addressType", ["FQDN", "IPv4", "IPv6"])
        version = _VERSIONS.get(obj["addressType"])
        for index, endpoint in enumerate(nested_objects(obj, "endpoints")):
            path, addresses = f"endpoints[{index}].addresses", nested_strings(endpoint, "addresses")
            if not addresses:
                problems.append(required_value(path, "must contain at least 1 address"))
            if version is None:
                continue
            for at, address in enumerate(addresses):
                found = _parse_address(address)
                if found is not None and found.version != version:
                    detail = f"must be an {obj['addressType']} address"
                    problems.append(invalid_value(path, address, detail))
                problems += _validate_address(f"{path}[{at}]", address)
        return problems

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[FieldError]:
        return validate_immutable(new, old, "addressType")


def _parse_address(value: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(value)
    except ValueError:
        return None


def _validate_address(path: str, value: str) -> list[FieldError]:
    """Validate an endpoint address. It need not be reachable from this machine."""
    address = _parse_address(value)
    if address is None:
        return [invalid_value(path, value, _INVALID_IP_MESSAGE)]
    problems: list[str] = []
    if address.is_unspecified:
        problems.append(f"may not be unspecified ({value})")
    if address.is_loopback and address not in _POD_NETWORK:
        problems.append("may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if address.is_link_local:
        problems.append("may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if any(address in network for network in _LOCAL_MULTICAST):
        detail = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
        problems.append(detail)
    return [invalid_value(path, value, detail) for detail in problems]
