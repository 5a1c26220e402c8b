"""endpoints-controller: the older Endpoints, one object per Service, for whoever reads those."""

from collections.abc import Iterable

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube import (
    AlreadyExists,
    Client,
    Controller,
    Forbidden,
    NotFound,
    Part,
    Reflector,
    Watch,
)
from kilonova.kube.identity import Key
from kilonova.kube.resource import plain
from kilonova.local.controllers.endpoints.members import Members
from kilonova.local.controllers.endpoints.objects import HEADLESS, Endpoint, Service
from kilonova.local.controllers.endpoints.wanted import Ports, endpoint_of, is_listed, ports_of
from kilonova.local.controllers.workshop import Workshop
from kilonova.local.kinds.walk import part

ENDPOINTS = plain("", "v1", "endpoints", "Endpoints", True)
_MANAGED_BY = "endpoints.kubernetes.io/managed-by"
_OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"
_MOST = 1000
_WORKERS = 4


def endpoints_parts(workshop: Workshop) -> Iterable[Part]:
    """The controller."""
    return [EndpointsController(workshop).controller]


class EndpointsController:
    """One reconcile looks at one Service, its pods and its Endpoints."""

    def __init__(self, workshop: Workshop) -> None:
        self._client: Client = workshop.account("endpoint-controller")
        self._members = workshop.once(Members)
        self._endpoints: Reflector[JsonObject] = workshop.cache(ENDPOINTS)
        self.controller = Controller(
            "endpoints",
            self._reconcile,
            [
                Watch(self._members.services),
                Watch(self._endpoints),
                Watch(self._members.pods, lambda _: ()),
                Watch(self._members.nodes, lambda _: ()),
            ],
            workers=_WORKERS,
        )
        self._members.tell(self.controller.queue.add)

    async def _reconcile(self, key: Key) -> None:
        service = self._members.services.store.get(key)
        present = self._endpoints.store.get(key)
        if service is None:
            if present is not None and _is_ours(present):
                await self._delete(key, present)
            return
        if not service.selects or service.metadata.deletion_timestamp:
            return
        wanted = self._wanted(service)
        try:
            if present is None:
                await self._client.create(ENDPOINTS, wanted, key[0])
            elif _kept(present) != _kept(wanted):
                body = {**wanted, "metadata": _changed_metadata(present, wanted)}
                await self._client.patch(ENDPOINTS, key[1], body, key[0])
        except (AlreadyExists, NotFound, Forbidden):
            return  # another moment's truth, or a namespace that is going: an event calls again

    async def _delete(self, key: Key, present: JsonObject) -> None:
        try:
            await self._client.delete(ENDPOINTS, key[1], key[0], uid=present["metadata"]["uid"])
        except NotFound:
            return

    def _wanted(self, service: Service) -> JsonObject:
        spec = service.spec
        family = spec.ip_families[0] if spec.ip_families else "IPv4"
        groups: dict[Ports, list[Endpoint]] = {}
        count = 0
        for pod in self._members.of(service):
            gone = pod.metadata.deletion_timestamp and not spec.publish_not_ready_addresses
            if not is_listed(pod) or gone:
                continue
            ports, endpoint = ports_of(service, pod), endpoint_of(pod, service, family, None)
            if endpoint is None or (spec.ports and not ports):
                continue
            count += 1
            if count <= _MOST:
                groups.setdefault(ports, []).append(endpoint)
        return endpoints_object(service, groups, over_capacity=count > _MOST)


def endpoints_object(
    service: Service, groups: dict[Ports, list[Endpoint]], *, over_capacity: bool
) -> JsonObject:
    """The Endpoints of a Service, whole."""
    labels = {**service.metadata.labels, _MANAGED_BY: "endpoint-controller"}
    labels.pop(HEADLESS, None)
    if service.headless:
        labels[HEADLESS] = ""
    metadata: JsonObject = {"name": service.metadata.name, "labels": labels}
    if over_capacity:
        metadata["annotations"] = {_OVER_CAPACITY: "truncated"}
    subsets = [_subset(ports, endpoints) for ports, endpoints in groups.items()]
    return {"metadata": metadata, "subsets": sorted(subsets, key=msgspec.json.encode)}


def _subset(ports: Ports, endpoints: list[Endpoint]) -> JsonObject:
    subset: JsonObject = {}
    for name, ready in (("addresses", True), ("notReadyAddresses", False)):
        chosen = [
            _address(each)
            for each in endpoints
            if each.conditions is not None and each.conditions.ready is ready
        ]
        if chosen:
            subset[name] = sorted(chosen, key=lambda each: each["ip"])
    if ports:
        named = [msgspec.to_builtins(port) for port in ports]
        for port in named:
            if not port["name"]:
                del port["name"]
        subset["ports"] = named
    return subset


def _address(endpoint: Endpoint) -> JsonObject:
    address: JsonObject = {
        "ip": endpoint.addresses[0],
        "hostname": endpoint.hostname,
        "nodeName": endpoint.node_name,
        "targetRef": msgspec.to_builtins(endpoint.target_ref),
    }
    return {name: value for name, value in address.items() if value is not None}


def _is_ours(obj: JsonObject) -> bool:
    return _MANAGED_BY in part(obj, "metadata", "labels")


def _kept(obj: JsonObject) -> JsonObject:
    """What this controller keeps of the object."""
    return {
        "labels": part(obj, "metadata", "labels"),
        "full": part(obj, "metadata", "annotations").get(_OVER_CAPACITY),
        "subsets": obj.get("subsets") or [],
    }


def _changed_metadata(present: JsonObject, wanted: JsonObject) -> JsonObject:
    """The labels and annotations of `wanted`, without the others that are there."""
    dropped: JsonObject = dict.fromkeys(part(present, "metadata", "labels"))
    labels = {**dropped, **part(wanted, "metadata", "labels")}
    full = part(wanted, "metadata", "annotations").get(_OVER_CAPACITY)
    return {"labels": labels, "annotations": {_OVER_CAPACITY: full}}
