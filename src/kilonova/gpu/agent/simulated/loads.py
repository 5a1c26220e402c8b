"""The load of simulated devices follows the pods that run on them."""

from collections import defaultdict
from collections.abc import Iterable
from zlib import crc32

from kilonova.api.gpu.annotations import DeviceAssignment
from kilonova.gpu.agent.holders import Holder, read_holders
from kilonova.gpu.agent.resources import Pod
from kilonova.gpu.devices.errors import GpuError
from kilonova.gpu.devices.model import Device
from kilonova.gpu.devices.simulated import ProcessLoad, SimulatedBackend

_MIN_ACTIVITY, _ACTIVITY_RANGE = 0.35, 0.6
_MIN_MEMORY, _MEMORY_RANGE = 0.3, 0.6
"""Between which parts of what they have pods use, by their UID."""
_MEBIBYTE = 1 << 20


class LoadFollower:
    """Sets the processes of one node's devices; only what has changed."""

    def __init__(self, backend: SimulatedBackend) -> None:
        self._backend = backend
        self._current: dict[str, tuple[ProcessLoad, ...]] = {}

    def follow(self, pods: Iterable[Pod]) -> None:
        """Processes of running pods, and of no others."""
        devices = {each.index: each for each in self._backend.read_inventory().devices}
        wanted: defaultdict[str, list[ProcessLoad]] = defaultdict(list)
        running = [each for each in pods if each.status.phase == "Running"]
        for holder in read_holders(running):
            for each in holder.devices:
                device = devices.get(each.index)
                target = None if device is None else _find_target(device, each)
                if device is not None and target is not None:
                    wanted[target].append(_build_load(holder, each, device, target))
        for target in {*self._current, *wanted}:
            loads = tuple(wanted.get(target, ()))
            if self._current.get(target, ()) == loads:
                continue
            try:
                self._backend.set_load(target, *loads)
            except GpuError:
                self._current.pop(target, None)
            else:
                self._current[target] = loads


def process_id(uid: str) -> int:
    """The number of the process of a pod."""
    return 1000 + crc32(uid.encode()) % 4_000_000


def _find_target(device: Device, assignment: DeviceAssignment) -> str | None:
    """What the processes run on; None while it does not exist."""
    if not assignment.profile:
        return None if device.mig_enabled else device.uuid
    place = (assignment.profile, assignment.start)
    return next(
        (each.uuid for each in device.instances if (each.profile, each.start) == place), None
    )


def _build_load(
    holder: Holder, assignment: DeviceAssignment, device: Device, target: str
) -> ProcessLoad:
    activity = _MIN_ACTIVITY + _ACTIVITY_RANGE * _draw(holder.uid, "activity", target)
    memory = _MIN_MEMORY + _MEMORY_RANGE * _draw(holder.uid, "memory", target)
    total = device.memory_mib
    if assignment.profile:
        found = (each.memory_mib for each in device.instances if each.uuid == target)
        total = next(found, 0) or device.memory_mib // 8
    share = 1.0 if assignment.profile else assignment.milli / 1000
    memory_share = 1.0 if assignment.profile else assignment.memory_milli / 1000
    return ProcessLoad(
        process_id(holder.uid),
        round(activity * share, 3),
        int(memory * memory_share * total) * _MEBIBYTE,
    )


def _draw(*words: str) -> float:
    """Between 0 and 1, the same for the same words."""
    return crc32("/".join(words).encode()) / 0xFFFFFFFF
