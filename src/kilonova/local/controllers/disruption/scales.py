"""How many pods the controllers of some pods want together."""

from collections.abc import Sequence

import msgspec

from kilonova.api.meta import Metadata, OwnerReference
from kilonova.kube import Client, NotFound, Resource
from kilonova.local.controllers.objects import Pod
from kilonova.local.controllers.ownership import AnyObject
from kilonova.local.controllers.scales import NoScale, Scale, ScaleReader

_REPLICA_SET = ("apps", "ReplicaSet")


class _Owned(msgspec.Struct):
    metadata: Metadata


class Scales:
    """Asks the API for the scale of whatever controls pods, whichever kind it is."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._reader = ScaleReader(client)

    async def expected(self, pods: Sequence[Pod]) -> tuple[int, list[str]]:
        """The sum over all controllers, and the names of pods that have none.

        `NoScale` where what a controller wants cannot be known.
        """
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
                    raise NoScale(f'found no controllers for pod "{pod.metadata.name}"')
                found[scale.metadata.uid] = scale.spec.replicas
        return sum(found.values()), unmanaged

    async def _scale(self, owner: OwnerReference, namespace: str) -> Scale | None:
        """The scale of a controller, or of the Deployment that has it made."""
        group = owner.api_version.rpartition("/")[0]
        resource = await self._reader.resource(group, owner.kind)
        if (group, owner.kind) == _REPLICA_SET:
            above = await self._controller_of(resource, owner, namespace)
            if above is not None and above.kind == "Deployment":
                return await self._scale(above, namespace)
        try:
            scale = await self._reader.read(resource, owner.name, namespace)
        except NotFound:
            return None
        return scale if scale.metadata.uid == owner.uid else None

    async def _controller_of(
        self, resource: Resource[AnyObject], owner: OwnerReference, namespace: str
    ) -> OwnerReference | None:
        try:
            found = await self._client.get(resource.as_type(_Owned), owner.name, namespace)
        except NotFound:
            return None
        return found.metadata.controller if found.metadata.uid == owner.uid else None
