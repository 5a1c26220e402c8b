"""The scale of anything that has one, found by its kind."""

import msgspec

from kilonova.api.meta import Metadata
from kilonova.kube import Client, NotFound, Resource
from kilonova.kube.codec import decode
from kilonova.kube.transport import Request
from kilonova.local.controllers.ownership import AnyObject
from kilonova.local.controllers.resources import served_resources


class NoScale(Exception):
    """There is no such kind, or it has no scale."""


class ScaleSpec(msgspec.Struct, frozen=True):
    """What is wanted."""

    replicas: int = 0


class ScaleStatus(msgspec.Struct, frozen=True):
    """What there is."""

    replicas: int = 0
    selector: str = ""


class Scale(msgspec.Struct):
    """How many replicas something has, and whose scale it is."""

    metadata: Metadata
    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()


class ScaleReader:
    """Reads scales; which kinds there are it asks again when it meets one that it does not know."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._resources: dict[tuple[str, str], Resource[AnyObject]] = {}

    async def resource(self, group: str, kind: str) -> Resource[AnyObject]:
        """The resource of a kind; `NoScale` where it is not served."""
        if (group, kind) not in self._resources:
            served = await served_resources(self._client, AnyObject, "get")
            self._resources = {(each.group, each.kind): each for each in served}
        if (group, kind) not in self._resources:
            raise NoScale(f'no matches for kind "{kind}" in group "{group}"')
        return self._resources[group, kind]

    async def read(self, resource: Resource[AnyObject], name: str, namespace: str) -> Scale:
        """The scale of an object; `NotFound` where the object is not, `NoScale` where no scale."""
        path = resource.path(namespace, name, "scale")
        try:
            reply = await self._client.send(Request("GET", path))
        except NotFound as error:
            if error.details.get("name"):
                raise
            what = resource.full_name
            raise NoScale(f"{what} does not implement the scale subresource") from None
        return decode(reply.body, Scale)
