"""Reads the scale subresource of objects of any kind."""

import msgspec

from kilonova.api.meta import Metadata
from kilonova.kube import Client, NotFound, Resource
from kilonova.kube.client.codec import decode
from kilonova.kube.client.transport import Request
from kilonova.local.controllers.garbagecollector.graph import OwnedObject
from kilonova.local.controllers.shared.discovery import discover_resources


class ScaleUnavailable(Exception):
    """The kind does not exist, or has no scale subresource."""


class ScaleSpec(msgspec.Struct, frozen=True):
    """Desired replicas."""

    replicas: int = 0


class ScaleStatus(msgspec.Struct, frozen=True):
    """Current replicas."""

    replicas: int = 0
    selector: str = ""


class Scale(msgspec.Struct):
    """A Scale, and the object it belongs to."""

    metadata: Metadata
    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()


class ScaleClient:
    """Reads scales; discovery is repeated when a kind is unknown."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._resources: dict[tuple[str, str], Resource[OwnedObject]] = {}

    async def find_resource(self, group: str, kind: str) -> Resource[OwnedObject]:
        """The resource of a kind; `ScaleUnavailable` if it is not served."""
        if (group, kind) not in self._resources:
            served = await discover_resources(self._client, OwnedObject, "get")
            self._resources = {(each.group, each.kind): each for each in served}
        if (group, kind) not in self._resources:
            raise ScaleUnavailable(f'no matches for kind "{kind}" in group "{group}"')
        return self._resources[group, kind]

    async def read_scale(self, resource: Resource[OwnedObject], name: str, namespace: str) -> Scale:
        """The scale of an object; raises `NotFound` without the object, `ScaleUnavailable` without
        scale.
        """
        path = resource.path(namespace, name, "scale")
        try:
            reply = await self._client.send(Request("GET", path))
        except NotFound as error:
            if error.details.get("name"):
                raise
            what = resource.full_name
            raise ScaleUnavailable(f"{what} does not implement the scale subresource") from None
        return decode(reply.body, Scale)
