"""Persistent volumes: binding, provisioning, protection and reclaiming.

A **claim** (PersistentVolumeClaim) requests storage, a **volume** (PersistentVolume) provides it.
The **binder** binds a claim to an available volume, or has one **provisioned** according to the
claim's **storage class**. With WaitForFirstConsumer the scheduler annotates the claim with the
selected node, and binds the pod once the claim is bound.
"""

from collections.abc import Iterable

from kilonova.kube import Controller, Runnable, Watch
from kilonova.kube.client.errors import AlreadyExists
from kilonova.kube.informers.object_keys import Key
from kilonova.local.controllers.context import ControllerContext
from kilonova.local.controllers.volumes.binder import PersistentVolumeBinder
from kilonova.local.controllers.volumes.ephemeral import EphemeralVolumeController
from kilonova.local.controllers.volumes.objects import STORAGE_CLASSES, VOLUME_CLAIMS, VOLUMES
from kilonova.local.controllers.volumes.protection import (
    ClaimProtectionController,
    VolumeProtectionController,
)
from kilonova.local.controllers.volumes.provisioner import (
    CLASS_NAME,
    VolumeDirectories,
    build_local_class,
)
from kilonova.local.controllers.volumes.reclaimer import VolumeReclaimController
from kilonova.local.controllers.volumes.selection import find_default_class
from kilonova.local.objects.core import NODES, PODS

__all__ = [
    "claim_protection_controllers",
    "ephemeral_volume_controllers",
    "volume_binder_controllers",
    "volume_protection_controllers",
]


def volume_binder_controllers(context: ControllerContext) -> Iterable[Runnable]:
    """persistentvolume-binder-controller, and the provisioner of the class `local`."""
    client = context.client_for("persistent-volume-binder")
    claims, volumes = context.informer(VOLUME_CLAIMS), context.informer(VOLUMES)
    classes, nodes = context.informer(STORAGE_CLASSES), context.informer(NODES)
    events = context.recorder("persistentvolume-controller")
    folders = VolumeDirectories(context.data / "volumes" if context.data is not None else None)
    binder = PersistentVolumeBinder(client, claims, volumes, classes, nodes, folders, events)
    reclaim = VolumeReclaimController(client, claims, volumes, folders, events, context.clock)
    return [_default_class_controller(context), binder.controller, reclaim.controller]


def _default_class_controller(context: ControllerContext) -> Controller:
    """Creates the class `local` once, at the start, unless there is a default class."""
    client, classes = (
        context.client_for("persistent-volume-binder"),
        context.informer(STORAGE_CLASSES),
    )

    async def create(key: Key) -> None:
        if key in classes.store or find_default_class(classes.store.objects()) is not None:
            return
        try:
            await client.create(STORAGE_CLASSES, build_local_class())
        except AlreadyExists:
            return

    controller = Controller("default storage class", create, [Watch(classes, lambda _: ())])
    controller.queue.add(("", CLASS_NAME))
    return controller


def claim_protection_controllers(context: ControllerContext) -> Iterable[Runnable]:
    """persistentvolumeclaim-protection-controller."""
    client = context.client_for("pvc-protection-controller")
    claims, pods = context.informer(VOLUME_CLAIMS), context.informer(PODS)
    return [ClaimProtectionController(client, claims, pods).controller]


def volume_protection_controllers(context: ControllerContext) -> Iterable[Runnable]:
    """persistentvolume-protection-controller."""
    client = context.client_for("pv-protection-controller")
    return [VolumeProtectionController(client, context.informer(VOLUMES)).controller]


def ephemeral_volume_controllers(context: ControllerContext) -> Iterable[Runnable]:
    """ephemeral-volume-controller."""
    client = context.client_for("ephemeral-volume-controller")
    events = context.recorder("ephemeral_volume")
    pods, claims = context.informer(PODS), context.informer(VOLUME_CLAIMS)
    return [EphemeralVolumeController(client, pods, claims, events).controller]
