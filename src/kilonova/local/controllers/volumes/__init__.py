"""Storage for pods: claims get volumes, and volumes are cleared away when nobody has them.

A **claim** (PersistentVolumeClaim) asks for storage, a **volume** (PersistentVolume) is some. The
**binder** gives a claim a volume that is free, or has one **provisioned** as the claim's **class**
says. Where the class waits for the first pod, whoever places that pod notes the node on the claim,
and the pod is placed when the claim has its volume.
"""

from collections.abc import Iterable

from kilonova.kube import Controller, Part, Watch
from kilonova.kube.errors import AlreadyExists
from kilonova.kube.identity import Key
from kilonova.local.controllers.objects import NODES, PODS
from kilonova.local.controllers.volumes.binder import Binder
from kilonova.local.controllers.volumes.ephemeral import EphemeralVolumes
from kilonova.local.controllers.volumes.matching import default_class
from kilonova.local.controllers.volumes.objects import STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES
from kilonova.local.controllers.volumes.protection import ClaimProtection, VolumeProtection
from kilonova.local.controllers.volumes.provisioning import CLASS_NAME, Folders, local_class
from kilonova.local.controllers.volumes.reclaim import Reclaim
from kilonova.local.controllers.workshop import Workshop

__all__ = [
    "claim_protection_parts",
    "ephemeral_volume_parts",
    "volume_binder_parts",
    "volume_protection_parts",
]


def volume_binder_parts(workshop: Workshop) -> Iterable[Part]:
    """persistentvolume-binder-controller, and the provisioner of the class `local`."""
    client = workshop.account("persistent-volume-binder")
    claims, volumes = workshop.cache(VOLUME_CLAIMS), workshop.cache(VOLUMES)
    classes, nodes = workshop.cache(STORAGE_CLASSES), workshop.cache(NODES)
    events = workshop.recorder("persistentvolume-controller")
    folders = Folders(workshop.data / "volumes" if workshop.data is not None else None)
    binder = Binder(client, claims, volumes, classes, nodes, folders, events)
    reclaim = Reclaim(client, claims, volumes, folders, events, workshop.clock)
    return [_first_class(workshop), binder.controller, reclaim.controller]


def _first_class(workshop: Workshop) -> Controller:
    """Creates the class `local` once, at the start, unless there is a default class."""
    client, classes = workshop.account("persistent-volume-binder"), workshop.cache(STORAGE_CLASSES)

    async def create(key: Key) -> None:
        if key in classes.store or default_class(classes.store.objects()) is not None:
            return
        try:
            await client.create(STORAGE_CLASSES, local_class())
        except AlreadyExists:
            return

    controller = Controller("default storage class", create, [Watch(classes, lambda _: ())])
    controller.queue.add(("", CLASS_NAME))
    return controller


def claim_protection_parts(workshop: Workshop) -> Iterable[Part]:
    """persistentvolumeclaim-protection-controller."""
    client = workshop.account("pvc-protection-controller")
    claims, pods = workshop.cache(VOLUME_CLAIMS), workshop.cache(PODS)
    return [ClaimProtection(client, claims, pods).controller]


def volume_protection_parts(workshop: Workshop) -> Iterable[Part]:
    """persistentvolume-protection-controller."""
    client = workshop.account("pv-protection-controller")
    return [VolumeProtection(client, workshop.cache(VOLUMES)).controller]


def ephemeral_volume_parts(workshop: Workshop) -> Iterable[Part]:
    """ephemeral-volume-controller."""
    client = workshop.account("ephemeral-volume-controller")
    events = workshop.recorder("ephemeral_volume")
    pods, claims = workshop.cache(PODS), workshop.cache(VOLUME_CLAIMS)
    return [EphemeralVolumes(client, pods, claims, events).controller]
