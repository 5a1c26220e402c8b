"""Resolves the Service of a webhook to its ready endpoints."""

import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects
from kilonova.local.apiserver.registry.encoding import object_key
from kilonova.local.apiserver.storage import RevisionStore

_SERVICE = re.compile(r"([^.]+)\.([^.]+)\.svc")
_SLICES = "endpointslices.discovery.k8s.io"


class NoEndpointError(Exception):
    """The Service has no reachable endpoint."""


@dataclass(frozen=True, slots=True)
class EndpointAddress:
    """The address of an endpoint."""

    host: str
    port: int


def ready_endpoints(
    service: JsonObject, slices: Iterable[JsonObject], port: int
) -> list[EndpointAddress]:
    """The ready endpoints of a service port. Raises `NoEndpointError`."""
    name = service["metadata"]["name"]
    spec = nested_object(service, "spec")
    kind = spec.get("type", "ClusterIP")
    if kind == "ExternalName":
        return [EndpointAddress(spec.get("externalName", ""), port)]
    named = next((each for each in nested_objects(spec, "ports") if each.get("port") == port), None)
    if named is None:
        raise NoEndpointError(f'no service port {port} found for service "{name}"')
    port_name = named.get("name", "")
    found = [
        EndpointAddress(endpoint["addresses"][0], number)
        for each in slices
        for number in _matching_ports(each, port_name)
        for endpoint in nested_objects(each, "endpoints")
        if nested_object(endpoint, "conditions").get("ready") is not False
        and endpoint.get("addresses")
    ]
    if not found:
        raise NoEndpointError(f'no endpoints available for service "{name}"')
    return found


def _matching_ports(slice: JsonObject, port: str) -> list[int]:
    ports = nested_objects(slice, "ports")
    return [each["port"] for each in ports if each.get("name", "") == port and each.get("port")]


class ServiceResolver(AbstractResolver):
    """Resolves `name.namespace.svc` by the stored Services, other names as usual."""

    def __init__(self, store: RevisionStore) -> None:
        self._services = store.collection("services")
        self._slices = store.collection(_SLICES)
        self._dns_resolver: AbstractResolver | None = None

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        match = _SERVICE.fullmatch(host)
        if match is None:
            return await self._resolve_dns(host, port, family)
        found: list[ResolveResult] = []
        for address in self._find_endpoints(match[2], match[1], port):
            try:
                socket.inet_pton(socket.AF_INET, address.host)
            except OSError:
                found += await self._resolve_dns(address.host, address.port, family)
            else:
                found.append(_resolve_result(host, address))
        return found

    async def close(self) -> None:
        if self._dns_resolver is not None:
            await self._dns_resolver.close()

    def _find_endpoints(self, namespace: str, name: str, port: int) -> list[EndpointAddress]:
        entry = self._services.get(object_key(namespace, name))
        if entry is None:
            raise NoEndpointError(f'service "{name}" not found')
        mine = [
            slice.decode()
            for slice in self._slices.range_entries(namespace)
            if slice.labels.get("kubernetes.io/service-name") == name
        ]
        return ready_endpoints(entry.decode(), mine, port)

    async def _resolve_dns(
        self, host: str, port: int, family: socket.AddressFamily
    ) -> list[ResolveResult]:
        if self._dns_resolver is None:
            self._dns_resolver = ThreadedResolver()
        return await self._dns_resolver.resolve(host, port, family)


def _resolve_result(host: str, address: EndpointAddress) -> ResolveResult:
    return {
        "hostname": host,
        "host": address.host,
        "port": address.port,
        "family": socket.AF_INET,
        "proto": socket.IPPROTO_TCP,
        "flags": socket.AI_NUMERICHOST,
    }
