"""Publishes what simulated nodes have of GPUs beside their Node: ResourceSlices, DeviceClasses, and
the MIG instances that come and go."""

from collections.abc import Callable

from kilonova.api.json import JsonObject
from kilonova.kube import AlreadyExists, Client, NotFound
from kilonova.kube.client.resource import unstructured_resource
from kilonova.local.kubelet_common.nodes import NODES
from kilonova.local.simnodes import objects
from kilonova.local.simnodes.gpus.resource_slices import (
    build_device_classes,
    build_resource_slices,
)
from kilonova.local.simnodes.machine import SimulatedMachine
from kilonova.local.simnodes.timer_queue import TimerQueue

_GROUP = "resource.k8s.io"
_SLICES = unstructured_resource(_GROUP, "v1", "resourceslices", "ResourceSlice", False)
_CLASSES = unstructured_resource(_GROUP, "v1", "deviceclasses", "DeviceClass", False)
_INSTANCE_DELAY = 0.5
"""Seconds for which changes of MIG instances are collected before they are published."""


class GpuPublisher:
    """Publishes the GPUs of machines. `find_node_uid` is the uid of the Node of a machine."""

    def __init__(
        self, client: Client, timers: TimerQueue, find_node_uid: Callable[[str], str | None]
    ) -> None:
        self._client = client
        self._timers = timers
        self._find_node_uid = find_node_uid
        self._has_classes = False
        self._due: set[str] = set()

    def add_machine(self, machine: SimulatedMachine) -> None:
        """Publish the devices of a machine for claims, and its MIG instances from now on."""
        machine.instances_changed = lambda: self._schedule_instances(machine)
        if machine.mig_instances():
            self._schedule_instances(machine)
        gpu = machine.node.group.gpu
        if gpu is not None and gpu.dra != "none":
            self._timers.call_after(0.0, lambda: self._publish_slices(machine))

    async def _publish_slices(self, machine: SimulatedMachine) -> None:
        gpu, uid = machine.node.group.gpu, self._find_node_uid(machine.node.name)
        if gpu is None or uid is None or machine.is_removed:
            return
        if not self._has_classes:
            for each in build_device_classes():
                await self._create_if_absent(each)
            self._has_classes = True
        for body in build_resource_slices(machine.node.name, uid, gpu):
            name: str = body["metadata"]["name"]
            try:
                found = await self._client.get(_SLICES, name)
            except NotFound:
                await self._client.create(_SLICES, body)
                continue
            if _differs(found, body):
                await self._client.delete(_SLICES, name)
                await self._client.create(_SLICES, body)

    async def _create_if_absent(self, body: JsonObject) -> None:
        try:
            await self._client.create(_CLASSES, body)
        except AlreadyExists:
            return

    def _schedule_instances(self, machine: SimulatedMachine) -> None:
        name = machine.node.name
        if name not in self._due:
            self._due.add(name)
            self._timers.call_after(_INSTANCE_DELAY, lambda: self._publish_instances(machine))

    async def _publish_instances(self, machine: SimulatedMachine) -> None:
        self._due.discard(machine.node.name)
        if machine.is_out or machine.made is not None:
            return  # it is published when the machine restarts, or by the node agent
        patch = objects.build_gpu_patch(
            machine.node, machine.faults.lost_gpus, machine.mig_instances()
        )
        try:
            await self._client.patch(NODES, machine.node.name, {"metadata": patch["metadata"]})
        except NotFound:
            return


def _differs(found: JsonObject, wanted: JsonObject) -> bool:
    """Whether a slice is of another Node, or of another kind of GPUs."""
    uids = [each["uid"] for each in found["metadata"].get("ownerReferences", ())]
    names = [each["name"] for each in found["spec"].get("devices", ())]
    expected = [each["name"] for each in wanted["spec"].get("devices", ())]
    owner = wanted["metadata"]["ownerReferences"][0]["uid"]
    return owner not in uids or names != expected
