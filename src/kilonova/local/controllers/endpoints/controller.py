"""endpointslice-controller: keeps the slices of every Service that selects pods."""

from collections.abc import Iterable, Iterator

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube import Client, Controller, Forbidden, NotFound, Part, Reflector, Result, Watch
from kilonova.kube.identity import Key
from kilonova.local.controllers.endpoints.members import Members
from kilonova.local.controllers.endpoints.objects import (
    CONTROLLER,
    MANAGED_BY,
    SERVICE_NAME,
    SLICES,
    Endpoint,
    Service,
    Slice,
    owner_of,
)
from kilonova.local.controllers.endpoints.slices import Content, plan, slice_labels
from kilonova.local.controllers.endpoints.wanted import Ports, endpoint_of, is_listed, ports_of
from kilonova.local.controllers.workshop import Workshop
from kilonova.local.names import dns_subdomain

_OF_SERVICE = "endpoint slices of a service"
_WORKERS = 4


def endpoint_slice_parts(workshop: Workshop) -> Iterable[Part]:
    """The controller."""
    return [SliceController(workshop).controller]


class SliceController:
    """One reconcile looks at one Service, its pods and its slices."""

    def __init__(self, workshop: Workshop) -> None:
        self._client: Client = workshop.account("endpointslice-controller")
        self._slices: Reflector[Slice] = workshop.cache(SLICES)
        self._slices.store.add_index(_OF_SERVICE, _service_keys)
        self._members = workshop.once(Members)
        self._written: dict[Key, int] = {}
        self.controller = Controller(
            "endpointslices",
            self._reconcile,
            [
                Watch(self._members.services),
                Watch(self._slices, _service_keys),
                Watch(self._members.pods, lambda _: ()),
                Watch(self._members.nodes, lambda _: ()),
            ],
            workers=_WORKERS,
        )
        self._members.tell(self.controller.queue.add)

    async def _reconcile(self, key: Key) -> Result | None:
        service = self._members.services.store.get(key)
        if service is None or not service.selects or service.metadata.deletion_timestamp:
            self._written.pop(key, None)
            return None
        if int(self._slices.resource_version or 0) < self._written.get(key, 0):
            return None  # what was written last is not seen yet; its arrival calls again
        families = service.spec.ip_families
        wanted = {family: self._wanted(service, family) for family in families}
        todo = plan(service, wanted, self._slices.store.find(_OF_SERVICE, key))
        for content in todo.write:
            await self._write(service, content)
        for each in todo.delete:
            await self._delete(each)
        return None

    def _wanted(self, service: Service, family: str) -> dict[Ports, list[Endpoint]]:
        groups: dict[Ports, list[Endpoint]] = {}
        shown = service.spec.publish_not_ready_addresses
        for pod in self._members.of(service):
            if not is_listed(pod) or not (shown or self._members.is_on_a_node(pod)):
                continue
            endpoint = endpoint_of(pod, service, family, self._members.zone(pod))
            if endpoint is not None:
                groups.setdefault(ports_of(service, pod), []).append(endpoint)
        return groups

    async def _write(self, service: Service, content: Content) -> None:
        body: JsonObject = {
            "metadata": {"labels": slice_labels(service)},
            "ports": msgspec.to_builtins(content.ports),
            "endpoints": msgspec.to_builtins(content.endpoints),
        }
        known, namespace = service.metadata, service.metadata.namespace
        try:
            if content.slice is None:
                body["addressType"] = content.family
                body["metadata"]["generateName"] = _prefix(known.name)
                body["metadata"]["ownerReferences"] = [msgspec.to_builtins(owner_of(service))]
                done = await self._client.create(SLICES, body, namespace)
            else:
                dropped = content.slice.metadata.labels.keys() - body["metadata"]["labels"].keys()
                body["metadata"]["labels"].update(dict.fromkeys(dropped))
                name = content.slice.metadata.name
                done = await self._client.patch(SLICES, name, body, namespace)
        except (NotFound, Forbidden):
            return  # the slice, or the namespace, is going: its end calls again if need be
        self._written[(namespace, known.name)] = int(done.metadata.resource_version)

    async def _delete(self, each: Slice) -> None:
        known = each.metadata
        try:
            await self._client.delete(SLICES, known.name, known.namespace, uid=known.uid)
        except NotFound:
            return


def _service_keys(each: Slice) -> Iterator[Key]:
    labels = each.metadata.labels
    if SERVICE_NAME in labels and labels.get(MANAGED_BY) == CONTROLLER:
        yield each.metadata.namespace, labels[SERVICE_NAME]


def _prefix(name: str) -> str:
    return name if dns_subdomain(f"{name}-x") else f"{name}-"
