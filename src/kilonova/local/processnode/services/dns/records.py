"""What the cluster's DNS knows of a name, as Kubernetes' DNS specification has it.

NAME.NS.svc.cluster.local            the ClusterIP, or all ready endpoints if headless
HOST.NAME.NS.svc.cluster.local       one endpoint: by hostname, or address with dashes
_PORT._PROTOCOL.NAME.NS.svc…         SRV: the port, and the names of what has it
A-B-C-D.NS.pod.cluster.local         the address itself
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from ipaddress import AddressValueError, IPv4Address
from typing import Protocol

from dns.exception import DNSException
from dns.name import from_text as parse_name
from dns.rcode import Rcode
from dns.rdata import Rdata
from dns.rdataclass import RdataClass
from dns.rdatatype import RdataType
from dns.rdtypes.ANY.CNAME import CNAME
from dns.rdtypes.ANY.SOA import SOA
from dns.rdtypes.IN.A import A
from dns.rdtypes.IN.SRV import SRV
from dns.rrset import RRset, from_rdata

from kilonova.local.processnode.services.dns.message import DnsAnswer
from kilonova.local.processnode.services.environment import DOMAIN
from kilonova.local.processnode.services.objects import EndpointSlice, Service, ServicePort
from kilonova.local.processnode.services.proxy.service_routes import find_target_ports

_TTL = 5
_MAX_CACHED_RECORDS = 4096
_IN = RdataClass.IN
_SERVICES, _PODS = f"svc.{DOMAIN}", f"pod.{DOMAIN}"


class ServiceDirectory(Protocol):
    """Finds Services and their endpoints."""

    def service(self, namespace: str, name: str) -> Service | None: ...

    def slices(self, namespace: str, name: str) -> Sequence[EndpointSlice]: ...


@dataclass(frozen=True, slots=True)
class CnameAlias:
    """The name is an alias (ExternalName), to be resolved further."""

    target: str
    record: RRset


def is_cluster_name(name: str) -> bool:
    """Whether a name is in the cluster's domain."""
    return f".{name}".endswith((f".{DOMAIN}", ".svc"))


def resolve_name(name: str, type_: int, directory: ServiceDirectory) -> DnsAnswer | CnameAlias:
    """The answer to a question about a name for which `is_cluster_name` is true."""
    full = name if name.endswith(DOMAIN) else f"{name}.{DOMAIN}"
    if full in (DOMAIN, _SERVICES, _PODS):
        return _no_data()
    if full.endswith(f".{_PODS}"):
        return _resolve_pod(name, full.removesuffix(f".{_PODS}").split("."), type_)
    if not full.endswith(f".{_SERVICES}"):
        return _name_error()
    labels = full.removesuffix(f".{_SERVICES}").split(".")
    if len(labels) < 2:
        return _no_data()
    service = directory.service(labels[-1], labels[-2])
    if service is None:
        return _name_error()
    found = _ServiceLookup(name, service, directory.slices(labels[-1], labels[-2]))
    return found.answer(labels[:-2], type_)


@dataclass(frozen=True, slots=True)
class _Endpoint:
    host: str
    address: str
    slice: EndpointSlice


@dataclass(frozen=True, slots=True)
class _ServiceLookup:
    """A Service that was looked up under some name."""

    name: str
    service: Service
    slices: Sequence[EndpointSlice]

    def answer(self, labels: Sequence[str], type_: int) -> DnsAnswer | CnameAlias:
        spec = self.service.spec
        if not labels:
            if spec.type == "ExternalName":
                return _build_alias(self.name, spec.external_name)
            if type_ == RdataType.SRV:
                return self._build_srv_answer(spec.ports)
            addresses = [spec.cluster_ip] if self.service.has_cluster_ip else self._addresses()
            return _build_address_answer(self.name, addresses, type_)
        if len(labels) == 1:
            addresses = [each.address for each in self._endpoints() if each.host == labels[0]]
            return _build_address_answer(self.name, addresses, type_)
        if len(labels) == 2 and all(label.startswith("_") for label in labels):
            name, protocol = labels[0][1:], labels[1][1:].upper()
            ports = [p for p in spec.ports if p.name == name and p.protocol == protocol]
            answer = self._build_srv_answer(ports)
            return answer if type_ == RdataType.SRV or not answer.records else _no_data()
        return _name_error()

    def _addresses(self) -> list[str]:
        return list(dict.fromkeys(each.address for each in self._endpoints()))

    def _endpoints(self) -> Iterable[_Endpoint]:
        for each in self.slices:
            if each.address_type != "IPv4":
                continue
            for endpoint in each.endpoints or ():
                if endpoint.is_ready and endpoint.addresses:
                    address = endpoint.addresses[0]
                    host = endpoint.hostname or address.replace(".", "-")
                    yield _Endpoint(host, address, each)

    def _build_srv_answer(self, ports: Iterable[ServicePort]) -> DnsAnswer:
        metadata = self.service.metadata
        full = f"{metadata.name}.{metadata.namespace}.{_SERVICES}"
        targets: dict[str, str] = {}
        places: list[tuple[int, str]] = []
        for port in ports:
            if self.service.has_cluster_ip:
                targets[full] = self.service.spec.cluster_ip
                places.append((port.port, full))
                continue
            for each in self._endpoints():
                for number in find_target_ports(each.slice, port):
                    targets[f"{each.host}.{full}"] = each.address
                    places.append((number, f"{each.host}.{full}"))
        if not places:
            return _name_error()
        weight = max(1, 100 // len(places))
        return DnsAnswer(
            records=tuple(
                _build_srv_record(self.name, weight, port, target) for port, target in places
            ),
            additional=tuple(build_address_record(target, ip) for target, ip in targets.items()),
        )


def _resolve_pod(name: str, labels: Sequence[str], type_: int) -> DnsAnswer:
    if len(labels) != 2:
        return _no_data() if len(labels) == 1 else _name_error()
    try:
        address = str(IPv4Address(labels[0].replace("-", ".")))
    except AddressValueError:
        return _name_error()
    return _build_address_answer(name, [address], type_)


def _build_address_answer(name: str, addresses: Sequence[str], type_: int) -> DnsAnswer:
    if not addresses:
        return _name_error()
    if type_ not in (RdataType.A, RdataType.ANY):
        return _no_data()
    return DnsAnswer(records=tuple(build_address_record(name, address) for address in addresses))


def _build_alias(name: str, external_name: str) -> DnsAnswer | CnameAlias:
    try:
        target = parse_name(external_name)
    except DNSException:
        return _name_error()  # the API accepts it, but it is not a valid DNS name
    record = _build_record(name, CNAME(_IN, RdataType.CNAME, target))
    return CnameAlias(external_name.removesuffix(".").lower(), record)


@lru_cache(maxsize=_MAX_CACHED_RECORDS)
def build_address_record(name: str, ip: str) -> RRset:
    """The A record of a name."""
    return _build_record(name, A(_IN, RdataType.A, ip))


@lru_cache(maxsize=_MAX_CACHED_RECORDS)
def _build_srv_record(name: str, weight: int, port: int, target: str) -> RRset:
    return _build_record(name, SRV(_IN, RdataType.SRV, 0, weight, port, parse_name(target)))


@cache
def _build_authority() -> tuple[RRset, ...]:
    """The SOA record: the primary server, and the TTL of negative answers."""
    server, contact = parse_name(f"ns.dns.{DOMAIN}"), parse_name(f"hostmaster.{DOMAIN}")
    soa = SOA(_IN, RdataType.SOA, server, contact, 1, 7200, 1800, 86400, _TTL)
    return (_build_record(DOMAIN, soa),)


def _build_record(name: str, value: Rdata) -> RRset:
    return from_rdata(parse_name(name), _TTL, value)


def _no_data() -> DnsAnswer:
    """The name exists, without records of the requested type."""
    return DnsAnswer(authority=_build_authority())


def _name_error() -> DnsAnswer:
    return DnsAnswer(Rcode.NXDOMAIN, authority=_build_authority())
