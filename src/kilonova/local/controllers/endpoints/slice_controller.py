"""endpointslice-controller: maintains the slices of every Service with a selector."""

from collections.abc import Iterable, Iterator

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube import (
    Client,
    Controller,
    Forbidden,
    NotFound,
    Reflector,
    Result,
    Runnable,
    Watch,
)
from kilonova.kube.informers.object_keys import Key
from kilonova.local.apimachinery.names import dns_subdomain_error
from kilonova.local.controllers.context import ControllerContext
from kilonova.local.controllers.endpoints.desired_endpoints import (
    Ports,
    build_endpoint,
    has_address,
    resolve_ports,
)
from kilonova.local.controllers.endpoints.objects import (
    CONTROLLER_NAME,
    ENDPOINT_SLICES,
    MANAGED_BY_LABEL,
    SERVICE_NAME_LABEL,
    Endpoint,
    EndpointSlice,
    Service,
    build_owner_reference,
)
from kilonova.local.controllers.endpoints.service_pods import ServicePods
from kilonova.local.controllers.endpoints.slice_plan import (
    SliceContent,
    build_slice_labels,
    plan_slices,
)

_BY_SERVICE = "endpoint slices of a service"
_WORKERS = 4


def endpoint_slice_controllers(context: ControllerContext) -> Iterable[Runnable]:
    """The controller."""
    return [EndpointSliceController(context).controller]


class EndpointSliceController:
    """Reconciles one Service, its pods and its slices."""

    def __init__(self, context: ControllerContext) -> None:
        self._client: Client = context.client_for("endpointslice-controller")
        self._slices: Reflector[EndpointSlice] = context.informer(ENDPOINT_SLICES)
        self._slices.store.add_index(_BY_SERVICE, _map_slice_to_service)
        self._service_pods = context.shared_instance(ServicePods)
        self._last_written: dict[Key, int] = {}
        self.controller = Controller(
            "endpointslices",
            self._reconcile,
            [
                Watch(self._service_pods.services),
                Watch(self._slices, _map_slice_to_service),
                Watch(self._service_pods.pods, lambda _: ()),
                Watch(self._service_pods.nodes, lambda _: ()),
            ],
            workers=_WORKERS,
        )
        self._service_pods.subscribe(self.controller.queue.add)

    async def _reconcile(self, key: Key) -> Result | None:
        service = self._service_pods.services.store.get(key)
        if service is None or not service.has_selector or service.metadata.deletion_timestamp:
            self._last_written.pop(key, None)
            return None
        if int(self._slices.resource_version or 0) < self._last_written.get(key, 0):
            # the last write is not in the cache yet; its event will enqueue the Service
            return None
        families = service.spec.ip_families
        desired = {family: self._desired_endpoints(service, family) for family in families}
        todo = plan_slices(service, desired, self._slices.store.by_index(_BY_SERVICE, key))
        for content in todo.write:
            await self._write_slice(service, content)
        for each in todo.delete:
            await self._delete_slice(each)
        return None

    def _desired_endpoints(self, service: Service, family: str) -> dict[Ports, list[Endpoint]]:
        groups: dict[Ports, list[Endpoint]] = {}
        shown = service.spec.publish_not_ready_addresses
        for pod in self._service_pods.pods_of(service):
            if not has_address(pod) or not (shown or self._service_pods.has_node(pod)):
                continue
            endpoint = build_endpoint(pod, service, family, self._service_pods.zone_of(pod))
            if endpoint is not None:
                groups.setdefault(resolve_ports(service, pod), []).append(endpoint)
        return groups

    async def _write_slice(self, service: Service, content: SliceContent) -> None:
        body: JsonObject = {
            "metadata": {"labels": build_slice_labels(service)},
            "ports": msgspec.to_builtins(content.ports),
            "endpoints": msgspec.to_builtins(content.endpoints),
        }
        metadata, namespace = service.metadata, service.metadata.namespace
        try:
            if content.slice is None:
                body["addressType"] = content.family
                body["metadata"]["generateName"] = _name_prefix(metadata.name)
                body["metadata"]["ownerReferences"] = [
                    msgspec.to_builtins(build_owner_reference(service))
                ]
                done = await self._client.create(ENDPOINT_SLICES, body, namespace)
            else:
                dropped = content.slice.metadata.labels.keys() - body["metadata"]["labels"].keys()
                body["metadata"]["labels"].update(dict.fromkeys(dropped))
                name = content.slice.metadata.name
                done = await self._client.patch(ENDPOINT_SLICES, name, body, namespace)
        except (NotFound, Forbidden):
            # the slice or the namespace is being deleted: its deletion enqueues the Service if
            # needed
            return
        self._last_written[(namespace, metadata.name)] = int(done.metadata.resource_version)

    async def _delete_slice(self, each: EndpointSlice) -> None:
        metadata = each.metadata
        try:
            await self._client.delete(
                ENDPOINT_SLICES, metadata.name, metadata.namespace, uid=metadata.uid
            )
        except NotFound:
            return


def _map_slice_to_service(each: EndpointSlice) -> Iterator[Key]:
    labels = each.metadata.labels
    if SERVICE_NAME_LABEL in labels and labels.get(MANAGED_BY_LABEL) == CONTROLLER_NAME:
        yield each.metadata.namespace, labels[SERVICE_NAME_LABEL]


def _name_prefix(name: str) -> str:
    return name if dns_subdomain_error(f"{name}-x") else f"{name}-"
