"""Endpoints and EndpointSlices: the addresses behind a service."""

from collections.abc import Iterator

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, required
from kilonova.local.kinds.base import Column
from kilonova.local.kinds.columns import AGE, NAME, NONE, UNSET, first_few, text
from kilonova.local.kinds.rules import immutable, one_of
from kilonova.local.kinds.strategy import Strategy, strategy
from kilonova.local.kinds.walk import objects


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
        return [
            required(f"subsets[{index}]", "must specify `addresses` or `notReadyAddresses`")
            for index, subset in enumerate(objects(obj, "subsets"))
            if not subset.get("addresses") and not subset.get("notReadyAddresses")
        ]


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
        return one_of(obj["addressType"], "addressType", ["FQDN", "IPv4", "IPv6"])

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[Problem]:
        return immutable(new, old, "addressType")
