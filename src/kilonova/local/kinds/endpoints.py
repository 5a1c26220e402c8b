"""Endpoints and EndpointSlices: the addresses behind a service."""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, invalid_value, required
from kilonova.local.kinds.base import Column
from kilonova.local.kinds.columns import AGE, NAME, NONE, UNSET, first_few, text
from kilonova.local.kinds.rules import immutable, one_of
from kilonova.local.kinds.strategy import Strategy, strategy
from kilonova.local.kinds.walk import objects, strings

_POD_NETWORK = ip_network("127.64.0.0/11")
"""Where the process node's pods have their addresses: loopback, unlike in Kubernetes."""
_NO_IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_LOCAL_MULTICAST = (ip_network("224.0.0.0/24"), ip_network("ff02::/16"))
_VERSIONS = {"IPv4": 4, "IPv6": 6}


def _addresses(obj: JsonObject) -> Iterator[str]:
    for subset in objects(obj, "subsets"):
        hosts = [address.get("ip", "") for address in objects(subset, "addresses")]
        ports = objects(subset, "ports")
        if not ports:
            yield from hosts
        for port in ports:
            for host in hosts:
                yield (
                    f"[{host}]:{port.get('port')}" if ":" in host else f"{host}:{port.get('port')}"
                )


def _shown(obj: JsonObject) -> str:
    return first_few(list(_addresses(obj))) if objects(obj, "subsets") else NONE


def _slice_ports(obj: JsonObject) -> str:
    ports = [str(port.get("port") or port.get("name") or "*") for port in objects(obj, "ports")]
    return first_few(ports) or UNSET


def _slice_addresses(obj: JsonObject) -> str:
    addresses = [
        address for endpoint in objects(obj, "endpoints") for address in endpoint["addresses"] or ()
    ]
    return first_few(addresses) or UNSET


@strategy("", "Endpoints")
class EndpointsStrategy(Strategy):
    """The old form: all addresses of a service in one object."""

    create_on_update = True
    deprecation = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
    columns = (NAME, Column("Endpoints", "string", lambda obj, _: _shown(obj)), AGE)

    def fill(self, obj: JsonObject) -> None:
        for subset in objects(obj, "subsets"):
            for port in objects(subset, "ports"):
                port.setdefault("protocol", "TCP")

    def problems(self, obj: JsonObject) -> list[Problem]:
        problems: list[Problem] = []
        for index, subset in enumerate(objects(obj, "subsets")):
            if not subset.get("addresses") and not subset.get("notReadyAddresses"):
                detail = "must specify `addresses` or `notReadyAddresses`"
                problems.append(required(f"subsets[{index}]", detail))
            for field in ("addresses", "notReadyAddresses"):
                for at, address in enumerate(objects(subset, field)):
                    path = f"subsets[{index}].{field}[{at}].ip"
                    problems += _address_problems(path, address.get("ip", ""))
        return problems


@strategy("discovery.k8s.io", "EndpointSlice")
class EndpointSlices(Strategy):
    """The new form: slices of at most a thousand addresses."""

    has_generation = True
    columns = (
        NAME,
        text("AddressType", "addressType"),
        Column("Ports", "string", lambda obj, _: _slice_ports(obj)),
        Column("Endpoints", "string", lambda obj, _: _slice_addresses(obj)),
        AGE,
    )

    def fill(self, obj: JsonObject) -> None:
        for port in objects(obj, "ports"):
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")

    def problems(self, obj: JsonObject) -> list[Problem]:
        if not obj.get("addressType"):
            return [required("addressType")]
        problems = one_of(obj["addressType"], "addressType", ["FQDN", "IPv4", "IPv6"])
        version = _VERSIONS.get(obj["addressType"])
        for index, endpoint in enumerate(objects(obj, "endpoints")):
            path, addresses = f"endpoints[{index}].addresses", strings(endpoint, "addresses")
            if not addresses:
                problems.append(required(path, "must contain at least 1 address"))
            if version is None:
                continue
            for at, address in enumerate(addresses):
                found = _address(address)
                if found is not None and found.version != version:
                    detail = f"must be an {obj['addressType']} address"
                    problems.append(invalid_value(path, address, detail))
                problems += _address_problems(f"{path}[{at}]", address)
        return problems

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[Problem]:
        return immutable(new, old, "addressType")


def _address(value: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(value)
    except ValueError:
        return None


def _address_problems(path: str, value: str) -> list[Problem]:
    """Why nobody can be behind that address. It need not be reachable from here."""
    address = _address(value)
    if address is None:
        return [invalid_value(path, value, _NO_IP)]
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
