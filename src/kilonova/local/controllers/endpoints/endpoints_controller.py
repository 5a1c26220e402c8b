"""endpoints-controller: the older Endpoints, one object per Service, for clients of that API."""

from collections.abc import Iterable

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube import (
    AlreadyExists,
    Client,
    Controller,
    Forbidden,
    NotFound,
    Reflector,
    Runnable,
    Watch,
)
from kilonova.kube.client.resource import unstructured_resource
from kilonova.kube.informers.object_keys import Key
from kilonova.local.apimachinery.unstructured import nested_object
from kilonova.local.controllers.context import ControllerContext
from kilonova.local.controllers.endpoints.desired_endpoints import (
    Ports,
    build_endpoint,
    has_address,
    resolve_ports,
)
from kilonova.local.controllers.endpoints.objects import HEADLESS_LABEL, Endpoint, Service
from kilonova.local.controllers.endpoints.service_pods import ServicePods

ENDPOINTS = unstructured_resource("", "v1", "endpoints", "Endpoints", True)
_MANAGED_BY = "endpoints.kubernetes.io/managed-by"
_OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"
_MAX_ENDPOINTS = 1000
_WORKERS = 4


def endpoints_controllers(context: ControllerContext) -> Iterable[Runnable]:
    """The controller."""
    return [EndpointsController(context).controller]


class EndpointsController:
    """Reconciles one Service, its pods and its Endpoints."""

    def __init__(self, context: ControllerContext) -> None:
        self._client: Client = context.client_for("endpoint-controller")
        self._service_pods = context.shared_instance(ServicePods)
        self._endpoints: Reflector[JsonObject] = context.informer(ENDPOINTS)
        self.controller = Controller(
            "endpoints",
            self._reconcile,
            [
                Watch(self._service_pods.services),
                Watch(self._endpoints),
                Watch(self._service_pods.pods, lambda _: ()),
                Watch(self._service_pods.nodes, lambda _: ()),
            ],
            workers=_WORKERS,
        )
        self._service_pods.subscribe(self.controller.queue.add)

    async def _reconcile(self, key: Key) -> None:
        service = self._service_pods.services.store.get(key)
        present = self._endpoints.store.get(key)
        if service is None:
            if present is not None and _is_managed(present):
                await self._delete(key, present)
            return
        if not service.has_selector or service.metadata.deletion_timestamp:
            return
        desired = self._desired_endpoints(service)
        try:
            if present is None:
                await self._client.create(ENDPOINTS, desired, key[0])
            elif _managed_fields(present) != _managed_fields(desired):
                body = {**desired, "metadata": _build_metadata_patch(present, desired)}
                await self._client.patch(ENDPOINTS, key[1], body, key[0])
        except (AlreadyExists, NotFound, Forbidden):
            # a conflict, or a terminating namespace: an event will enqueue the Service again
            return

    async def _delete(self, key: Key, present: JsonObject) -> None:
        try:
            await self._client.delete(ENDPOINTS, key[1], key[0], uid=present["metadata"]["uid"])
        except NotFound:
            return

    def _desired_endpoints(self, service: Service) -> JsonObject:
        spec = service.spec
        family = spec.ip_families[0] if spec.ip_families else "IPv4"
        groups: dict[Ports, list[Endpoint]] = {}
        count = 0
        for pod in self._service_pods.pods_of(service):
            is_terminating = (
                pod.metadata.deletion_timestamp and not spec.publish_not_ready_addresses
            )
            if not has_address(pod) or is_terminating:
                continue
            ports, endpoint = (
                resolve_ports(service, pod),
                build_endpoint(pod, service, family, None),
            )
            if endpoint is None or (spec.ports and not ports):
                continue
            count += 1
            if count <= _MAX_ENDPOINTS:
                groups.setdefault(ports, []).append(endpoint)
        return build_endpoints(service, groups, over_capacity=count > _MAX_ENDPOINTS)


def build_endpoints(
    service: Service, groups: dict[Ports, list[Endpoint]], *, over_capacity: bool
) -> JsonObject:
    """The whole Endpoints object of a Service."""
    labels = {**service.metadata.labels, _MANAGED_BY: "endpoint-controller"}
    labels.pop(HEADLESS_LABEL, None)
    if service.is_headless:
        labels[HEADLESS_LABEL] = ""
    metadata: JsonObject = {"name": service.metadata.name, "labels": labels}
    if over_capacity:
        metadata["annotations"] = {_OVER_CAPACITY: "truncated"}
    subsets = [_build_subset(ports, endpoints) for ports, endpoints in groups.items()]
    return {"metadata": metadata, "subsets": sorted(subsets, key=msgspec.json.encode)}


def _build_subset(ports: Ports, endpoints: list[Endpoint]) -> JsonObject:
    subset: JsonObject = {}
    for name, ready in (("addresses", True), ("notReadyAddresses", False)):
        chosen = [
            _build_address(each)
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


def _build_address(endpoint: Endpoint) -> JsonObject:
    address: JsonObject = {
        "ip": endpoint.addresses[0],
        "hostname": endpoint.hostname,
        "nodeName": endpoint.node_name,
        "targetRef": msgspec.to_builtins(endpoint.target_ref),
    }
    return {name: value for name, value in address.items() if value is not None}


def _is_managed(obj: JsonObject) -> bool:
    return _MANAGED_BY in nested_object(obj, "metadata", "labels")


def _managed_fields(obj: JsonObject) -> JsonObject:
    """The fields of the object that this controller manages."""
    return {
        "labels": nested_object(obj, "metadata", "labels"),
        "full": nested_object(obj, "metadata", "annotations").get(_OVER_CAPACITY),
        "subsets": obj.get("subsets") or [],
    }


def _build_metadata_patch(present: JsonObject, desired: JsonObject) -> JsonObject:
    """A patch to the labels and annotations of `desired`, which removes all others."""
    dropped: JsonObject = dict.fromkeys(nested_object(present, "metadata", "labels"))
    labels = {**dropped, **nested_object(desired, "metadata", "labels")}
    full = nested_object(desired, "metadata", "annotations").get(_OVER_CAPACITY)
    return {"labels": labels, "annotations": {_OVER_CAPACITY: full}}
