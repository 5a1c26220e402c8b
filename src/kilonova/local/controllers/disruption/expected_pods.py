"""How many pods the controllers of some pods desire together."""

from collections.abc import Sequence

import msgspec

from kilonova.api.meta import Metadata, OwnerReference
from kilonova.kube import Client, NotFound, Resource
from kilonova.local.controllers.garbagecollector.graph import OwnedObject
from kilonova.local.controllers.shared.scales import Scale, ScaleClient, ScaleUnavailable
from kilonova.local.objects.core import Pod

_REPLICA_SET = ("apps", "ReplicaSet")


class _OwnedObject(msgspec.Struct):
    metadata: Metadata


class ExpectedPodCounter:
    """Reads the scale subresource of pods' controllers of any kind."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._reader = ScaleClient(client)

    async def count_expected(self, pods: Sequence[Pod]) -> tuple[int, list[str]]:
        """The sum over all controllers, and the names of pods that have none.

        `ScaleUnavailable` if the scale of a controller cannot be read.
        """
        found: dict[str, int] = {}
        counted: set[str] = set()
        unmanaged: list[str] = []
        for pod in pods:
            owner = pod.metadata.controller
            if owner is None:
                unmanaged.append(pod.metadata.name)
            elif owner.uid not in counted:
                counted.add(owner.uid)
                scale = await self._find_scale(owner, pod.metadata.namespace)
                if scale is None:
                    raise ScaleUnavailable(f'found no controllers for pod "{pod.metadata.name}"')
                found[scale.metadata.uid] = scale.spec.replicas
        return sum(found.values()), unmanaged

    async def _find_scale(self, owner: OwnerReference, namespace: str) -> Scale | None:
        """The scale of a controller, or of the Deployment that owns it."""
        group = owner.api_version.rpartition("/")[0]
        resource = await self._reader.find_resource(group, owner.kind)
        if (group, owner.kind) == _REPLICA_SET:
            above = await self._find_controller(resource, owner, namespace)
            if above is not None and above.kind == "Deployment":
                return await self._find_scale(above, namespace)
        try:
            scale = await self._reader.read_scale(resource, owner.name, namespace)
        except NotFound:
            return None
        return scale if scale.metadata.uid == owner.uid else None

    async def _find_controller(
        self, resource: Resource[OwnedObject], owner: OwnerReference, namespace: str
    ) -> OwnerReference | None:
        try:
            found = await self._client.get(resource.as_type(_OwnedObject), owner.name, namespace)
        except NotFound:
            return None
        return found.metadata.controller if found.metadata.uid == owner.uid else None
