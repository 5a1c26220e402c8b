"""Whose a device, a MIG instance or a process is. Pure.

A device without MIG belongs to a pod if that pod alone has it, as a whole or a share of it. Where
several pods share it, what the driver measures by process is divided among them: each process
belongs to a pod by its control group. A MIG instance belongs to the pod that was assigned its
profile and start.
"""

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from kilonova.api.gpu.annotations import DeviceAssignment
from kilonova.gpu.devices.model import Device, DeviceTelemetry, MigInstance
from kilonova.gpu.exporter.metrics import Labels
from kilonova.gpu.exporter.model import DeviceUser, NodeReading

NOBODY: Labels = {"pod": "", "namespace": "", "container": ""}


class Use(msgspec.Struct, frozen=True):
    """A user, and what it has of one device."""

    user: DeviceUser
    assignment: DeviceAssignment


class ProcessShare(msgspec.Struct, frozen=True):
    """What the processes of a pod use of a device together; None where nothing is measured."""

    utilisation: float | None
    memory_bytes: int | None


class Attribution:
    """Who has what on the node of a reading."""

    def __init__(self, reading: NodeReading) -> None:
        self._pods_of_processes = reading.pods_of_processes
        self._whole: defaultdict[int, list[Use]] = defaultdict(list)
        self._instances: defaultdict[tuple[int, str, int], list[Use]] = defaultdict(list)
        for user in reading.users:
            for each in user.devices:
                use = Use(user, each)
                if each.profile:
                    self._instances[each.index, each.profile, each.start].append(use)
                else:
                    self._whole[each.index].append(use)

    def uses_of_device(self, device: Device) -> Sequence[Use]:
        """Who has a device, or a share of it, without MIG."""
        return self._whole.get(device.index, ())

    def uses_of_instance(self, device: Device, instance: MigInstance) -> Sequence[Use]:
        """Who has a MIG instance; assignments may name its profile as the catalog does."""
        found = self._instances.get((device.index, instance.profile, instance.start))
        if found is not None or device.geometry is None:
            return found or ()
        profile = device.geometry.profile(instance.profile)
        for (index, name, start), uses in self._instances.items():
            if (index, start) != (device.index, instance.start):
                continue
            if profile is not None and device.geometry.profile(name) == profile:
                return uses
        return ()

    def measure_processes(self, measured: DeviceTelemetry, pod: str) -> ProcessShare | None:
        """What the processes of a pod use of a device, by the UID of the pod. None if no process
        could be attributed to any pod, so that nothing is known; a pod without processes uses
        nothing."""
        known = [each for each in measured.processes if each.pid in self._pods_of_processes]
        if measured.processes and not known:
            return None
        own = [each for each in known if self._pods_of_processes[each.pid] == pod]
        utilisation = [each.utilisation for each in own if each.utilisation is not None]
        memory = [each.memory_bytes for each in own if each.memory_bytes is not None]
        return ProcessShare(
            sum(utilisation) if utilisation or not own else None,
            sum(memory) if memory or not own else None,
        )


def count_pods(uses: Sequence[Use]) -> int:
    """The number of pods among the users."""
    return len({each.user.uid for each in uses})


def pod_labels(uses: Sequence[Use]) -> Labels:
    """The labels of what one pod has; empty ones where no pod, or more than one, has it."""
    if count_pods(uses) != 1:
        return NOBODY
    user = uses[0].user
    containers = {each.user.container for each in uses}
    container = user.container if len(containers) == 1 else ""
    return {"pod": user.pod, "namespace": user.namespace, "container": container}
