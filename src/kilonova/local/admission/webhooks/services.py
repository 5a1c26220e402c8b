"""Webhooks behind a Service: where its ready endpoints are."""

import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

from kilonova.api.json import JsonObject
from kilonova.local.kinds.walk import objects, part
from kilonova.local.registry.objects import key_of
from kilonova.local.storage import Store

_SERVICE = re.compile(r"([^.]+)\.([^.]+)\.svc")
_SLICES = "endpointslices.discovery.k8s.io"


class NoEndpoint(Exception):
    """A Service that nobody can be reached by."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to connect to."""

    host: str
    port: int


def endpoints_of(service: JsonObject, slices: Iterable[JsonObject], port: int) -> list[Address]:
    """The ready endpoints behind a port of a service. Raises `NoEndpoint`."""
    name = service["metadata"]["name"]
    spec = part(service, "spec")
    kind = spec.get("type", "ClusterIP")
    if kind == "ExternalName":
        return [Address(spec.get("externalName", ""), port)]
    named = next((each for each in objects(spec, "ports") if each.get("port") == port), None)
    if named is None:
        raise NoEndpoint(f'no service port {port} found for service "{name}"')
    wanted = named.get("name", "")
    found = [
        Address(endpoint["addresses"][0], number)
        for each in slices
        for number in _ports(each, wanted)
        for endpoint in objects(each, "endpoints")
        if part(endpoint, "conditions").get("ready") is not False and endpoint.get("addresses")
    ]
    if not found:
        raise NoEndpoint(f'no endpoints available for service "{name}"')
    return found


def _ports(slice: JsonObject, wanted: str) -> list[int]:
    ports = objects(slice, "ports")
    return [each["port"] for each in ports if each.get("name", "") == wanted and each.get("port")]


class ServiceDirectory(AbstractResolver):
    """Resolves `name.namespace.svc` by the stored Services, anything else as usual."""

    def __init__(self, store: Store) -> None:
        self._services = store.collection("services")
        self._slices = store.collection(_SLICES)
        self._others: AbstractResolver | None = None

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        match = _SERVICE.fullmatch(host)
        if match is None:
            return await self._elsewhere(host, port, family)
        found: list[ResolveResult] = []
        for address in self._endpoints(match[2], match[1], port):
            try:
                socket.inet_pton(socket.AF_INET, address.host)
            except OSError:
                found += await self._elsewhere(address.host, address.port, family)
            else:
                found.append(_result(host, address))
        return found

    async def close(self) -> None:
        if self._others is not None:
            await self._others.close()

    def _endpoints(self, namespace: str, name: str, port: int) -> list[Address]:
        entry = self._services.get(key_of(namespace, name))
        if entry is None:
            raise NoEndpoint(f'service "{name}" not found')
        mine = [
            slice.decode()
            for slice in self._slices.between(namespace)
            if slice.labels.get("kubernetes.io/service-name") == name
        ]
        return endpoints_of(entry.decode(), mine, port)

    async def _elsewhere(
        self, host: str, port: int, family: socket.AddressFamily
    ) -> list[ResolveResult]:
        if self._others is None:
            self._others = ThreadedResolver()
        return await self._others.resolve(host, port, family)


def _result(host: str, address: Address) -> ResolveResult:
    return {
        "hostname": host,
        "host": address.host,
        "port": address.port,
        "family": socket.AF_INET,
        "proto": socket.IPPROTO_TCP,
        "flags": socket.AI_NUMERICHOST,
    }
