"""What the cluster's DNS knows of a name, as Kubernetes' DNS specification has it.

NAME.NS.svc.cluster.local            the ClusterIP, or all ready endpoints if headless
HOST.NAME.NS.svc.cluster.local       one endpoint: by hostname, or address with dashes
_PORT._PROTOCOL.NAME.NS.svc…         SRV: the port, and the names of what has it
A-B-C-D.NS.pod.cluster.local         the address itself
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address
from typing import Protocol

from kilonova.local.nodes.process.services.environment import DOMAIN
from kilonova.local.nodes.process.services.message import (
    Answer,
    Code,
    Record,
    Type,
    address_value,
    authority_value,
    service_value,
    write_name,
)
from kilonova.local.nodes.process.services.objects import EndpointSlice, Service, ServicePort
from kilonova.local.nodes.process.services.routing import port_numbers

TTL = 5
_LONGEST_LABEL = 63
_SERVICES, _PODS = f"svc.{DOMAIN}", f"pod.{DOMAIN}"


class Directory(Protocol):
    """Where Services and what is behind them are found."""

    def service(self, namespace: str, name: str) -> Service | None: ...

    def slices(self, namespace: str, name: str) -> Sequence[EndpointSlice]: ...


@dataclass(frozen=True, slots=True)
class Alias:
    """The name stands for another one, which has to be asked for."""

    target: str
    record: Record


def is_ours(name: str) -> bool:
    """Whether a name is the cluster's to answer."""
    return f".{name}".endswith((f".{DOMAIN}", ".svc"))


def look_up(name: str, type_: int, directory: Directory) -> Answer | Alias:
    """The answer to a question about a name that `is_ours`."""
    full = name if name.endswith(DOMAIN) else f"{name}.{DOMAIN}"
    if full in (DOMAIN, _SERVICES, _PODS):
        return _nothing()
    if full.endswith(f".{_PODS}"):
        return _pod(name, full.removesuffix(f".{_PODS}").split("."), type_)
    if not full.endswith(f".{_SERVICES}"):
        return _no_such_name()
    labels = full.removesuffix(f".{_SERVICES}").split(".")
    if len(labels) < 2:
        return _nothing()
    service = directory.service(labels[-1], labels[-2])
    if service is None:
        return _no_such_name()
    found = _Found(name, service, directory.slices(labels[-1], labels[-2]))
    return found.answer(labels[:-2], type_)


@dataclass(frozen=True, slots=True)
class _Endpoint:
    host: str
    address: str
    slice: EndpointSlice


@dataclass(frozen=True, slots=True)
class _Found:
    """A Service that was asked for under some name."""

    name: str
    service: Service
    slices: Sequence[EndpointSlice]

    def answer(self, labels: Sequence[str], type_: int) -> Answer | Alias:
        spec = self.service.spec
        if not labels:
            if spec.type == "ExternalName":
                if any(len(label) > _LONGEST_LABEL for label in spec.external_name.split(".")):
                    return _no_such_name()  # the API takes it, but no nameserver has it
                record = Record(self.name, Type.CNAME, write_name(spec.external_name), TTL)
                return Alias(spec.external_name.removesuffix(".").lower(), record)
            if type_ == Type.SRV:
                return self._ports(spec.ports)
            addresses = [spec.cluster_ip] if self.service.has_address else self._addresses()
            return _of_addresses(self.name, addresses, type_)
        if len(labels) == 1:
            addresses = [each.address for each in self._endpoints() if each.host == labels[0]]
            return _of_addresses(self.name, addresses, type_)
        if len(labels) == 2 and all(label.startswith("_") for label in labels):
            name, protocol = labels[0][1:], labels[1][1:].upper()
            ports = [p for p in spec.ports if p.name == name and p.protocol == protocol]
            answer = self._ports(ports)
            return answer if type_ == Type.SRV or not answer.records else _nothing()
        return _no_such_name()

    def _addresses(self) -> list[str]:
        return list(dict.fromkeys(each.address for each in self._endpoints()))

    def _endpoints(self) -> Iterable[_Endpoint]:
        for each in self.slices:
            if each.address_type != "IPv4":
                continue
            for endpoint in each.endpoints or ():
                if endpoint.ready and endpoint.addresses:
                    address = endpoint.addresses[0]
                    host = endpoint.hostname or address.replace(".", "-")
                    yield _Endpoint(host, address, each)

    def _ports(self, ports: Iterable[ServicePort]) -> Answer:
        metadata = self.service.metadata
        full = f"{metadata.name}.{metadata.namespace}.{_SERVICES}"
        targets: dict[str, str] = {}
        places: list[tuple[int, str]] = []
        for port in ports:
            if self.service.has_address:
                targets[full] = self.service.spec.cluster_ip
                places.append((port.port, full))
                continue
            for each in self._endpoints():
                for number in port_numbers(each.slice, port):
                    targets[f"{each.host}.{full}"] = each.address
                    places.append((number, f"{each.host}.{full}"))
        if not places:
            return _no_such_name()
        weight = max(1, 100 // len(places))
        return Answer(
            records=tuple(
                Record(self.name, Type.SRV, service_value(weight, port, target), TTL)
                for port, target in places
            ),
            additional=tuple(_address(target, ip) for target, ip in targets.items()),
        )


def _pod(name: str, labels: Sequence[str], type_: int) -> Answer:
    if len(labels) != 2:
        return _nothing() if len(labels) == 1 else _no_such_name()
    try:
        address = str(IPv4Address(labels[0].replace("-", ".")))
    except AddressValueError:
        return _no_such_name()
    return _of_addresses(name, [address], type_)


def _of_addresses(name: str, addresses: Sequence[str], type_: int) -> Answer:
    if not addresses:
        return _no_such_name()
    if type_ not in (Type.A, Type.ANY):
        return _nothing()
    return Answer(records=tuple(_address(name, address) for address in addresses))


def _address(name: str, ip: str) -> Record:
    return Record(name, Type.A, address_value(ip), TTL)


def _authority() -> tuple[Record, ...]:
    return (Record(DOMAIN, Type.SOA, authority_value(DOMAIN, TTL), TTL),)


def _nothing() -> Answer:
    """The name is there, but nothing of what was asked for."""
    return Answer(authority=_authority())


def _no_such_name() -> Answer:
    return Answer(Code.NO_SUCH_NAME, authority=_authority())
