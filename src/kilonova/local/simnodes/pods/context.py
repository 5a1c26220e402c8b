"""What the simulation of pods works with."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from random import Random

from kilonova.api.json import JsonObject
from kilonova.kube import Client, Reflector
from kilonova.kube.events import EventRecorder, ObjectReference
from kilonova.local.objects.core import PODS, ContainerStateTerminated, Pod
from kilonova.local.objects.indexes import BY_NODE
from kilonova.local.simnodes.machine import SimulatedMachine
from kilonova.local.simnodes.pods.state import restart_count
from kilonova.local.simnodes.pods.status import build_running_status
from kilonova.local.simnodes.timer_queue import TimerQueue


@dataclass(frozen=True, slots=True)
class PodContext:
    """Shared by all that simulates pods."""

    client: Client
    pods: Reflector[Pod]
    timers: TimerQueue
    random: Random
    now: Callable[[], datetime]
    events: EventRecorder

    def pods_on(self, machine: SimulatedMachine) -> list[Pod]:
        """The pods that are bound to a machine."""
        return self.pods.store.by_index(BY_NODE, machine.node.name)

    def schedule(
        self,
        delay: float,
        action: Callable[[SimulatedMachine, Pod], Awaitable[None]],
        machine: SimulatedMachine,
        pod: Pod,
    ) -> None:
        """Schedule a step for this very pod, skipped if it has been restarted by then."""
        key = (pod.metadata.namespace, pod.metadata.name)
        uid, count = pod.metadata.uid, restart_count(pod)

        async def due() -> None:
            current = self.pods.store.get(key)
            if current is None or current.metadata.uid != uid or machine.is_out:
                return  # when the machine is back, its pods are scheduled again
            if restart_count(current) == count:
                await action(machine, current)

        self.timers.call_after(delay, due)

    def build_running_status(
        self, machine: SimulatedMachine, pod: Pod, end: ContainerStateTerminated | None
    ) -> JsonObject:
        """The status of a pod whose containers run, after the first start or a restart."""
        address = machine.allocate_address(pod.metadata.uid)
        return build_running_status(pod, machine.node.number, address, self.now(), end)

    async def set_status(self, pod: Pod, status: JsonObject) -> None:
        """Write what changed in the status of this very pod."""
        body = {"metadata": {"uid": pod.metadata.uid}, "status": status}
        await self.client.patch(
            PODS, pod.metadata.name, body, pod.metadata.namespace, subresource="status"
        )


def object_reference(pod: Pod) -> ObjectReference:
    """The pod, as Events refer to it."""
    metadata = pod.metadata
    return ObjectReference.to(PODS, metadata.name, metadata.namespace, metadata.uid)
