"""Which claims hold which devices: no device is allocated twice, no counter or capacity is
exceeded."""

from collections.abc import Iterable, Mapping

from kilonova.scheduler.core.dra.claims import (
    AllocatedDevice,
    ClaimAllocation,
    Device,
    DeviceId,
    SharedCounter,
    find_qualified,
)

CapacityAmounts = tuple[tuple[str, int], ...]


class DeviceUsage:
    """Devices by holder. Published allocations may exceed the capacity: another scheduler wrote
    them."""

    def __init__(
        self, devices: Mapping[DeviceId, Device], counters: Mapping[SharedCounter, int]
    ) -> None:
        self._devices = devices
        self._counters = counters
        self._holders: dict[DeviceId, dict[str, int]] = {}
        self._consumed: dict[tuple[DeviceId, str], int] = {}
        self._drawn: dict[SharedCounter, int] = {}

    def is_in_use(self, device: Device) -> bool:
        """Whether a claim holds it, or counters that it consumes are in use."""
        if device.id in self._holders:
            return True
        return any(self._drawn.get(counter) for counter, _ in device.consumes)

    def is_held(self, device: DeviceId) -> bool:
        """Whether a claim holds a device."""
        return device in self._holders

    def holders(self, devices: Iterable[DeviceId]) -> set[str]:
        """The claims that hold some of these devices."""
        return {claim for device in devices for claim in self._holders.get(device, ())}

    def has_capacity(self, device: Device, amounts: CapacityAmounts) -> bool:
        """Whether a device can be allocated to one more claim that consumes these amounts."""
        held = device.id in self._holders
        if not device.shared:
            return not held and self._counters_suffice(device)
        if not held and not self._counters_suffice(device):
            return False
        return all(
            self._consumed.get((device.id, name), 0) + amount <= device.capacity[name].value
            for name, amount in amounts
        )

    def can_hold(self, claim: str, allocation: ClaimAllocation) -> bool:
        """Whether a claim holds its allocation, or could hold it."""
        for allocated in allocation.devices:
            device = self._devices.get(allocated.device)
            if (
                device is None
                or allocated.admin
                or claim in self._holders.get(allocated.device, ())
            ):
                continue
            if not self.has_capacity(device, allocated.consumed):
                return False
        return True

    def hold(self, claim: str, allocation: ClaimAllocation) -> None:
        """Counts the devices of an allocation as held by a claim."""
        for allocated in allocation.devices:
            self.add_device(claim, allocated)

    def release(self, claim: str, allocation: ClaimAllocation) -> None:
        """Counts them as free again."""
        for allocated in allocation.devices:
            self.remove_device(claim, allocated)

    def add_device(self, claim: str, allocated: AllocatedDevice) -> None:
        if not allocated.admin:
            holders = self._holders.get(allocated.device)
            if holders is None:
                holders = self._holders[allocated.device] = {}
                self._draw_counters(allocated.device, 1)
            holders[claim] = holders.get(claim, 0) + 1
            self._consume_capacity(allocated, 1)

    def remove_device(self, claim: str, allocated: AllocatedDevice) -> None:
        if not allocated.admin:
            holders = self._holders[allocated.device]
            holders[claim] -= 1
            if not holders[claim]:
                del holders[claim]
            if not holders:
                del self._holders[allocated.device]
                self._draw_counters(allocated.device, -1)
            self._consume_capacity(allocated, -1)

    def is_overallocated(self, allocations: Iterable[ClaimAllocation]) -> bool:
        """Whether devices of one of the allocations are allocated beyond their capacity."""
        return any(
            self._is_device_overallocated(allocated)
            for allocation in allocations
            for allocated in allocation.devices
            if not allocated.admin
        )

    def _is_device_overallocated(self, allocated: AllocatedDevice) -> bool:
        device = self._devices.get(allocated.device)
        if device is None:
            return False
        if not device.shared:
            if len(self._holders.get(allocated.device, ())) > 1:
                return True
        elif any(
            self._consumed.get((device.id, name), 0) > capacity.value
            for name, capacity in device.capacity.items()
        ):
            return True
        return any(self._counter_left(counter) < 0 for counter, _ in device.consumes)

    def _counters_suffice(self, device: Device) -> bool:
        return all(amount <= self._counter_left(counter) for counter, amount in device.consumes)

    def _counter_left(self, counter: SharedCounter) -> int:
        return self._counters.get(counter, 0) - self._drawn.get(counter, 0)

    def _draw_counters(self, id: DeviceId, sign: int) -> None:
        device = self._devices.get(id)
        if device is not None:
            for counter, amount in device.consumes:
                self._drawn[counter] = self._drawn.get(counter, 0) + sign * amount

    def _consume_capacity(self, allocated: AllocatedDevice, sign: int) -> None:
        for name, amount in allocated.consumed:
            key = allocated.device, name
            self._consumed[key] = self._consumed.get(key, 0) + sign * amount


def consumed_capacity(device: Device, requested: CapacityAmounts) -> CapacityAmounts | None:
    """The amounts of each capacity of a device that a request consumes, by name; None if the device
    does not have what is requested. Capacity that is not requested, and has no default, is consumed
    wholly."""
    wanted: dict[str, int] = {}
    for name, amount in requested:
        if find_qualified(device.capacity, name, device.id.driver) is None:
            return None
        wanted[name] = amount
    taken: list[tuple[str, int]] = []
    for name, capacity in sorted(device.capacity.items()):
        amount = capacity.amount_consumed(find_qualified(wanted, name, device.id.driver))
        if amount is None or amount > capacity.value:
            return None
        taken.append((name, amount))
    return tuple(taken)
