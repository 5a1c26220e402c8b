"""The devices of a node as the engine knows them, and how their instances change.

The view is set by inventories and by the steps of the engine. An inventory that was read while a
device was being changed does not count for that device: each change counts up its **version**.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from kilonova.catalog.mig import MigGeometry, Slot
from kilonova.gpu.devices.model import (
    Device,
    DeviceTelemetry,
    MigInstance,
    NodeInventory,
)
from kilonova.gpu.mig.plan.occupancy import slot_of
from kilonova.gpu.mig.plan.steps import (
    CreateInstance,
    DestroyInstance,
    DisableMode,
    EnableMode,
    ResetDevice,
    Step,
)
from kilonova.gpu.mig.reservations import SlotRequest
from kilonova.gpu.mig.states import (
    ChangeReason,
    InstanceStatus,
    MigState,
    StateChange,
    StateTracker,
)


class DeviceView:
    """The devices, and the states of their instances."""

    def __init__(
        self,
        report: Callable[[StateChange], None],
        holder_of: Callable[[str, Slot], str],
    ) -> None:
        """`holder_of` returns the holder of a slot of a device, empty if it has none."""
        self.states = StateTracker(report)
        self._holder_of = holder_of
        self._inventory = NodeInventory()
        self._devices: dict[str, Device] = {}
        self._versions: dict[str, int] = {}
        self._busy: set[str] = set()
        """UUIDs of instances with processes, and of devices with processes beside MIG."""

    @property
    def inventory(self) -> NodeInventory:
        """The node with its devices as they are known now."""
        devices = tuple(self._devices[each.uuid] for each in self._inventory.devices)
        return msgspec.structs.replace(self._inventory, devices=devices)

    def device(self, uuid: str) -> Device | None:
        return self._devices.get(uuid)

    def find_instance(self, request: SlotRequest) -> MigInstance | None:
        """The complete instance in a slot, if there is one."""
        device = self._devices.get(request.device)
        if device is None or device.geometry is None:
            return None
        for instance in device.instances:
            if not instance.is_partial and slot_of(device.geometry, instance) == request.slot:
                return instance
        return None

    def geometries(self) -> Mapping[str, MigGeometry]:
        """The geometry of each device that has MIG."""
        return {
            uuid: device.geometry
            for uuid, device in self._devices.items()
            if device.geometry is not None
        }

    def versions(self) -> Mapping[str, int]:
        """To be taken before an inventory is read, and given to `merge`."""
        return dict(self._versions)

    def merge(self, inventory: NodeInventory, versions: Mapping[str, int]) -> None:
        """Take over an inventory, except for devices that were changed meanwhile."""
        self._inventory = inventory
        for device in inventory.devices:
            known = self._devices.get(device.uuid)
            if known is not None and self._versions[device.uuid] != versions.get(device.uuid):
                continue
            self._set(device, known)
        present = {device.uuid for device in inventory.devices}
        for uuid in [uuid for uuid in self._devices if uuid not in present]:
            self._forget(uuid)

    def touch(self, device: str) -> None:
        """Note that a device is about to change: inventories read until then are stale."""
        self._versions[device] = self._versions.get(device, 0) + 1

    def apply_step(self, step: Step, created: MigInstance | None) -> None:
        """Take over the effect of a step that was done."""
        device = self._devices[step.device]
        self.touch(step.device)
        match step:
            case EnableMode() | DisableMode():
                enabled = isinstance(step, EnableMode)
                self._replace(
                    msgspec.structs.replace(device, mig_enabled=enabled, mig_pending=None)
                )
            case ResetDevice():
                enabled = device.mig_enabled if device.mig_pending is None else device.mig_pending
                self._replace(
                    msgspec.structs.replace(
                        device, mig_enabled=enabled, mig_pending=None, instances=()
                    )
                )
            case DestroyInstance():
                rest = tuple(each for each in device.instances if each.uuid != step.uuid)
                if self.states.instance(step.uuid) is not None:
                    self.states.move_instance(step.uuid, MigState.DESTROYED, ChangeReason.DESTROYED)
                self._replace(msgspec.structs.replace(device, instances=rest))
            case CreateInstance():
                if created is None:
                    return
                others = tuple(each for each in device.instances if each.uuid != created.uuid)
                instances = sorted((*others, created), key=lambda each: each.start)
                self._add(step.device, created, step.slot)
                self._devices[step.device] = msgspec.structs.replace(
                    device, instances=tuple(instances)
                )

    def set_pending(self, device: str, enabled: bool) -> None:
        """Note that the MIG mode of a device changes at its next reset."""
        self.touch(device)
        self._replace(msgspec.structs.replace(self._devices[device], mig_pending=enabled))

    def observe(self, telemetry: Sequence[DeviceTelemetry]) -> None:
        """Take over which instances have processes."""
        for each in telemetry:
            device = self._devices.get(each.uuid)
            if device is None:
                continue
            ids = {process.gpu_instance for process in each.processes}
            if None in ids:
                self._busy.add(device.uuid)
            else:
                self._busy.discard(device.uuid)
            for instance in device.instances:
                if instance.gpu_instance in ids:
                    self._busy.add(instance.uuid)
                else:
                    self._busy.discard(instance.uuid)
        self.update_states()

    def update_states(self) -> None:
        """Bring the states in line with holders and processes."""
        for status in self.states.instances():
            if status.state is MigState.PARTITION_CREATED:
                continue
            holder = self._holder_of(status.device, status.slot)
            after = self._state(status.uuid, holder)
            if after is MigState.IN_USE:
                reason = ChangeReason.STARTED
            elif holder and holder == status.holder:
                reason = ChangeReason.STOPPED
            elif holder:
                reason = ChangeReason.ALLOCATED
            elif status.holder:
                reason = ChangeReason.RELEASED
            else:
                reason = ChangeReason.STOPPED
            self.states.move_instance(status.uuid, after, reason, holder)

    def has_processes(self, instance: str) -> bool:
        """Whether processes were seen on an instance."""
        return instance in self._busy

    def forget_processes(self, devices: Iterable[str], slots: Iterable[SlotRequest]) -> None:
        """Forget what was seen on devices, and on instances in slots."""
        self._busy.difference_update(devices)
        places = {(each.device, each.slot) for each in slots}
        self._busy.difference_update(
            each.uuid for each in self.states.instances() if (each.device, each.slot) in places
        )

    def is_busy(self, device: str) -> bool:
        """Whether processes were seen on a device, or on any of its instances."""
        known = self._devices.get(device)
        return known is not None and not self._busy.isdisjoint(
            {device, *(each.uuid for each in known.instances)}
        )

    def has_whole_processes(self, device: str) -> bool:
        """Whether processes were seen on a device, outside of its instances."""
        return device in self._busy

    def _state(self, uuid: str, holder: str) -> MigState:
        if uuid in self._busy:
            return MigState.IN_USE
        return MigState.ALLOCATED if holder else MigState.AVAILABLE

    def _set(self, device: Device, known: Device | None) -> None:
        self._devices[device.uuid] = device
        self._versions.setdefault(device.uuid, 0)
        if known is None and not device.mig_enabled:
            self.states.move_device(
                device.uuid, MigState.DISCOVERED, ChangeReason.DEVICE_DISCOVERED
            )
        self._replace(device)

    def _replace(self, device: Device) -> None:
        """Set a device, and the states of it and its instances."""
        self._devices[device.uuid] = device
        present = {instance.uuid for instance in device.instances}
        for status in self.states.instances():
            if status.device == device.uuid and status.uuid not in present:
                self._busy.discard(status.uuid)
                self.states.move_instance(status.uuid, MigState.DESTROYED, ChangeReason.LOST)
        if device.mig_enabled:
            self.states.move_device(device.uuid, MigState.MIG_ENABLED, ChangeReason.MODE_ENABLED)
        elif self.states.device_state(device.uuid) is not None:
            self.states.move_device(device.uuid, MigState.DISCOVERED, ChangeReason.MODE_DISABLED)
        for instance in device.instances:
            if self.states.instance(instance.uuid) is None:
                self._adopt(device, instance)

    def _adopt(self, device: Device, instance: MigInstance) -> None:
        if device.geometry is None:
            slot = Slot(instance.profile, instance.start)
        else:
            slot = slot_of(device.geometry, instance)
        if instance.is_partial:
            holder, state = "", MigState.PARTITION_CREATED
        else:
            holder = self._holder_of(device.uuid, slot)
            state = self._state(instance.uuid, holder)
        status = InstanceStatus(device.uuid, instance.uuid, slot, state, holder)
        self.states.add_instance(status, ChangeReason.ADOPTED)

    def _add(self, device: str, instance: MigInstance, slot: Slot) -> None:
        if self.states.instance(instance.uuid) is not None:
            return
        self.states.add_instance(
            InstanceStatus(device, instance.uuid, slot, MigState.PARTITION_CREATED),
            ChangeReason.CREATED,
        )
        self.states.move_instance(instance.uuid, MigState.AVAILABLE, ChangeReason.CREATED)
        holder = self._holder_of(device, slot)
        if holder:
            self.states.move_instance(
                instance.uuid, MigState.ALLOCATED, ChangeReason.ALLOCATED, holder
            )

    def _forget(self, device: str) -> None:
        """A device that is in the inventory no more: it is gone with its instances."""
        lost = msgspec.structs.replace(self._devices[device], instances=())
        self._replace(lost)
        del self._devices[device]
