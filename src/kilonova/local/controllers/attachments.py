"""What a pod must have before it is placed, beside room on a node: devices and volumes.

A pod waits until each of its claims of devices has some and is reserved for it, which a scheduler
does that knows devices. Claims of storage whose class waits for the first pod get their volume
where that pod is to be: the node is chosen, noted on the claims, and the pod placed when they are
bound. All of it then says which nodes the pod can be on.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kilonova.kube import Client, Conflict, NotFound, Reflector
from kilonova.local.controllers.claims.generation import named_claim
from kilonova.local.controllers.claims.objects import CLAIMS, Claim
from kilonova.local.controllers.fitting import is_selected
from kilonova.local.controllers.objects import Node, NodeRequirement, NodeSelector, NodeTerm, Pod
from kilonova.local.controllers.volumes.matching import best_volume
from kilonova.local.controllers.volumes.objects import (
    SELECTED_NODE,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
    PersistentVolume,
    StorageClass,
    VolumeClaim,
)
from kilonova.local.controllers.workshop import Workshop

_NO_PROVISIONER = "kubernetes.io/no-provisioner"


@dataclass(frozen=True, slots=True)
class Reach:
    """Where something can be used: on nodes that one of the selectors means; None means all."""

    selectors: tuple[NodeSelector | None, ...]
    otherwise: str
    """What is said of all other nodes."""


@dataclass(frozen=True, slots=True)
class Needs:
    """Why a pod has to wait, or where it can be."""

    waiting: str = ""
    reaches: tuple[Reach, ...] = ()
    unbound: tuple[VolumeClaim, ...] = ()
    """Claims that get their volumes where the pod is to be."""

    def objection(self, node: Node) -> str | None:
        """Why what the pod has cannot be used on a node."""
        for reach in self.reaches:
            if not any(each is None or is_selected(node, each) for each in reach.selectors):
                return reach.otherwise
        return None


class _Wait(Exception):
    """Why a pod cannot be placed yet."""


class Attachments:
    """Looks into the caches of claims and volumes. Pods without any cost a look at their lists."""

    def __init__(
        self,
        client: Client,
        devices: Reflector[Claim],
        claims: Reflector[VolumeClaim],
        volumes: Reflector[PersistentVolume],
        classes: Reflector[StorageClass],
    ) -> None:
        self._client = client
        self._devices = devices
        self._claims = claims
        self._volumes = volumes
        self._classes = classes

    @classmethod
    def of(cls, workshop: Workshop, client: Client) -> "Attachments":
        """With the shared caches."""
        return cls(
            client,
            workshop.cache(CLAIMS),
            workshop.cache(VOLUME_CLAIMS),
            workshop.cache(VOLUMES),
            workshop.cache(STORAGE_CLASSES),
        )

    def subscribe(self, changed: Callable[[], None]) -> None:
        """Call `changed` whenever a pod that waited may have to wait no longer."""
        self._devices.store.subscribe(lambda _old, _new: changed())
        self._claims.store.subscribe(lambda _old, _new: changed())
        self._volumes.store.subscribe(lambda _old, _new: changed())
        self._classes.store.subscribe(lambda _old, _new: changed())

    async def wait_synced(self) -> None:
        for each in (self._devices, self._claims, self._volumes, self._classes):
            await each.wait_synced()

    def needs(self, pod: Pod, is_node: Callable[[str], bool]) -> Needs:
        """What is to be known of a pod before a node is chosen."""
        if not pod.spec.resource_claims and not pod.spec.volumes:
            return Needs()
        try:
            claims = [claim for claim in self._claims_of(pod) if not claim.was_bound]
            reaches = (*self._of_devices(pod), *self._of_volumes(pod, is_node))
        except _Wait as reason:
            return Needs(str(reason))
        return Needs("", reaches, tuple(claims))

    async def select(self, needs: Needs, node: str) -> None:
        """Let the volumes of a pod be made where it is to be."""
        for claim in needs.unbound:
            known = claim.metadata
            if known.annotations.get(SELECTED_NODE) == node:
                continue
            metadata = {
                "uid": known.uid,
                "resourceVersion": known.resource_version,
                "annotations": {SELECTED_NODE: node},
            }
            try:
                await self._client.patch(
                    VOLUME_CLAIMS, known.name, {"metadata": metadata}, known.namespace
                )
            except (NotFound, Conflict):
                return  # it changed, and its pod is looked at again

    def _of_devices(self, pod: Pod) -> Iterator[Reach]:
        for wanted in pod.spec.resource_claims:
            known = named_claim(wanted, pod.status.resource_claim_statuses)
            if known is not None and known.name is None:
                continue
            name = known.name if known is not None and known.name else wanted.name
            claim = self._devices.store.get((pod.metadata.namespace, name)) if known else None
            if claim is None:
                raise _Wait(f"waiting for resource claim {name} to be created")
            allocation = claim.status.allocation
            if allocation is None or not claim.is_reserved_for(pod.metadata.uid):
                raise _Wait(f"waiting for resource claim {name} to be allocated")
            if allocation.node_selector is not None:
                otherwise = "node(s) could not reach the pod's resource claims"
                yield Reach((allocation.node_selector,), otherwise)

    def _claims_of(self, pod: Pod) -> Iterator[VolumeClaim]:
        for volume in pod.spec.volumes:
            name = volume.claim_name(pod.metadata.name)
            if name is None:
                continue
            claim = self._claims.store.get((pod.metadata.namespace, name))
            if claim is None:
                raise _Wait(f'persistentvolumeclaim "{name}" not found')
            if claim.metadata.deletion_timestamp is not None:
                raise _Wait(f'persistentvolumeclaim "{name}" is being deleted')
            owner = claim.metadata.controller
            if volume.ephemeral is not None and (owner is None or owner.uid != pod.metadata.uid):
                raise _Wait(f'persistentvolumeclaim "{name}" was not created for the pod')
            yield claim

    def _of_volumes(self, pod: Pod, is_node: Callable[[str], bool]) -> Iterator[Reach]:
        for claim in self._claims_of(pod):
            if claim.was_bound:
                yield from self._of_bound(claim)
                continue
            storage_class = self._classes.store.get(("", claim.storage_class or ""))
            if storage_class is None or not storage_class.waits_for_pod:
                raise _Wait("pod has unbound immediate PersistentVolumeClaims")
            selected = claim.metadata.annotations.get(SELECTED_NODE, "")
            if is_node(selected):
                yield Reach((_only(selected),), "node(s) were not selected for the pod's volumes")
            elif storage_class.provisioner == _NO_PROVISIONER:
                otherwise = "node(s) didn't find available persistent volumes to bind"
                yield Reach(tuple(self._free_for(claim)), otherwise)

    def _of_bound(self, claim: VolumeClaim) -> Iterator[Reach]:
        name = claim.spec.volume_name
        volume = self._volumes.store.get(("", name))
        if volume is None:
            bound = f'persistentvolumeclaim "{claim.metadata.name}" bound to non-existent'
            raise _Wait(f'{bound} persistentvolume "{name}"')
        if volume.nodes is not None:
            yield Reach((volume.nodes,), "node(s) didn't match PersistentVolume's node affinity")

    def _free_for(self, claim: VolumeClaim) -> Iterator[NodeSelector | None]:
        for volume in self._volumes.store.objects():
            if best_volume(claim, (volume,)) is not None:
                yield volume.nodes


def _only(node: str) -> NodeSelector:
    return NodeSelector((NodeTerm((), (NodeRequirement("metadata.name", "In", (node,)),)),))
