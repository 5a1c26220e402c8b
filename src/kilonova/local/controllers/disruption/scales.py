"""How many pods the controllers of some pods want together."""

from collections.abc import Sequence

import msgspec

from kilonova.kube import Client, NotFound, Resource
from kilonova.kube.codec import decode
from kilonova.kube.transport import Request
from kilonova.local.controllers.objects import Metadata, OwnerReference, Pod
from kilonova.local.controllers.ownership import AnyObject
from kilonova.local.controllers.resources import served_resources

_REPLICA_SET = ("apps", "ReplicaSet")


class UnknownScale(Exception):
    """What a pod's controller wants cannot be known."""


class _Owned(msgspec.Struct):
    metadata: Metadata


class _ScaleSpec(msgspec.Struct, frozen=True):
    replicas: int = 0


class _Scale(msgspec.Struct):
    metadata: Metadata
    spec: _ScaleSpec = _ScaleSpec()


class Scales:
    """Asks the API for the scale of whatever controls pods, whichever kind it is."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._resources: dict[tuple[str, str], Resource[AnyObject]] = {}

    async def expected(self, pods: Sequence[Pod]) -> tuple[int, list[str]]:
        """The sum over all controllers, and the names of pods that have none."""
        found: dict[str, int] = {}
        known: set[str] = set()
        unmanaged: list[str] = []
        for pod in pods:
            owner = pod.metadata.controller
            if owner is None:
                unmanaged.append(pod.metadata.name)
            elif owner.uid not in known:
                known.add(owner.uid)
                scale = await self._scale(owner, pod.metadata.namespace)
                if scale is None:
                    raise UnknownScale(f'found no controllers for pod "{pod.metadata.name}"')
                found[scale.metadata.uid] = scale.spec.replicas
        return sum(found.values()), unmanaged

    async def _scale(self, owner: OwnerReference, namespace: str) -> _Scale | None:
        """The scale of a controller, or of the Deployment that has it made."""
        group = owner.api_version.rpartition("/")[0]
        resource = await self._resource(group, owner.kind)
        if (group, owner.kind) == _REPLICA_SET:
            above = await self._controller_of(resource, owner, namespace)
            if above is not None and above.kind == "Deployment":
                return await self._scale(above, namespace)
        try:
            reply = await self._client.send(
                Request("GET", resource.path(namespace, owner.name, "scale"))
            )
        except NotFound as error:
            if not error.details.get("name"):
                what = resource.full_name
                raise UnknownScale(f"{what} does not implement the scale subresource") from None
            return None
        scale = decode(reply.body, _Scale)
        return scale if scale.metadata.uid == owner.uid else None

    async def _controller_of(
        self, resource: Resource[AnyObject], owner: OwnerReference, namespace: str
    ) -> OwnerReference | None:
        try:
            found = await self._client.get(resource.as_type(_Owned), owner.name, namespace)
        except NotFound:
            return None
        return found.metadata.controller if found.metadata.uid == owner.uid else None

    async def _resource(self, group: str, kind: str) -> Resource[AnyObject]:
        if (group, kind) not in self._resources:
            served = await served_resources(self._client, AnyObject, "get")
            self._resources = {(each.group, each.kind): each for each in served}
        if (group, kind) not in self._resources:
            raise UnknownScale(f'no matches for kind "{kind}" in group "{group}"')
        return self._resources[group, kind]
