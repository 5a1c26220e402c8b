"""Who has which devices: nothing is given out twice, no counter and no capacity is overdrawn."""

from collections.abc import Iterable, Mapping

from kilonova.scheduler.core.claims import Allocation, Counter, Device, DeviceId, Given, qualified

Amounts = tuple[tuple[str, int], ...]


class DeviceUse:
    """Devices by who has them. Things may be held beyond what there is: others wrote them."""

    def __init__(self, devices: Mapping[DeviceId, Device], counters: Mapping[Counter, int]) -> None:
        self._devices = devices
        self._counters = counters
        self._holders: dict[DeviceId, dict[str, int]] = {}
        self._consumed: dict[tuple[DeviceId, str], int] = {}
        self._drawn: dict[Counter, int] = {}

    def is_touched(self, device: Device) -> bool:
        """Whether somebody has it, or draws on the counters that it draws on."""
        if device.id in self._holders:
            return True
        return any(self._drawn.get(counter) for counter, _ in device.consumes)

    def holders(self, devices: Iterable[DeviceId]) -> set[str]:
        """The claims that have some of these devices."""
        return {claim for device in devices for claim in self._holders.get(device, ())}

    def has_room(self, device: Device, amounts: Amounts) -> bool:
        """Whether a device can be given to one more, who would take so much of its capacity."""
        held = device.id in self._holders
        if not device.shared:
            return not held and self._counters_suffice(device)
        if not held and not self._counters_suffice(device):
            return False
        return all(
            self._consumed.get((device.id, name), 0) + amount <= device.capacity[name].value
            for name, amount in amounts
        )

    def could_hold(self, claim: str, allocation: Allocation) -> bool:
        """Whether a claim has what was allocated to it, or could be given it again."""
        for given in allocation.devices:
            device = self._devices.get(given.device)
            if device is None or given.admin or claim in self._holders.get(given.device, ()):
                continue
            if not self.has_room(device, given.consumed):
                return False
        return True

    def hold(self, claim: str, allocation: Allocation) -> None:
        """A claim has what was allocated to it."""
        for given in allocation.devices:
            self.take(claim, given)

    def let_go(self, claim: str, allocation: Allocation) -> None:
        """A claim has it no longer."""
        for given in allocation.devices:
            self.give_back(claim, given)

    def take(self, claim: str, given: Given) -> None:
        if not given.admin:
            holders = self._holders.get(given.device)
            if holders is None:
                holders = self._holders[given.device] = {}
                self._draw(given.device, 1)
            holders[claim] = holders.get(claim, 0) + 1
            self._consume(given, 1)

    def give_back(self, claim: str, given: Given) -> None:
        if not given.admin:
            holders = self._holders[given.device]
            holders[claim] -= 1
            if not holders[claim]:
                del holders[claim]
            if not holders:
                del self._holders[given.device]
                self._draw(given.device, -1)
            self._consume(given, -1)

    def overdrawn(self, allocations: Iterable[Allocation]) -> bool:
        """Whether more is held than there is, of something that one of the allocations has."""
        return any(
            self._is_overdrawn(given)
            for allocation in allocations
            for given in allocation.devices
            if not given.admin
        )

    def _is_overdrawn(self, given: Given) -> bool:
        device = self._devices.get(given.device)
        if device is None:
            return False
        if not device.shared:
            if len(self._holders.get(given.device, ())) > 1:
                return True
        elif any(
            self._consumed.get((device.id, name), 0) > capacity.value
            for name, capacity in device.capacity.items()
        ):
            return True
        return any(self._left(counter) < 0 for counter, _ in device.consumes)

    def _counters_suffice(self, device: Device) -> bool:
        return all(amount <= self._left(counter) for counter, amount in device.consumes)

    def _left(self, counter: Counter) -> int:
        return self._counters.get(counter, 0) - self._drawn.get(counter, 0)

    def _draw(self, id: DeviceId, sign: int) -> None:
        device = self._devices.get(id)
        if device is not None:
            for counter, amount in device.consumes:
                self._drawn[counter] = self._drawn.get(counter, 0) + sign * amount

    def _consume(self, given: Given, sign: int) -> None:
        for name, amount in given.consumed:
            key = given.device, name
            self._consumed[key] = self._consumed.get(key, 0) + sign * amount


def amounts_taken(device: Device, asked: Amounts) -> Amounts | None:
    """How much of each capacity of a device, by name, is taken by who asks for so much; None if it
    does not have what is asked for. What is not asked for, and has no default, is taken wholly."""
    wanted: dict[str, int] = {}
    for name, amount in asked:
        if qualified(device.capacity, name, device.id.driver) is None:
            return None
        wanted[name] = amount
    taken: list[tuple[str, int]] = []
    for name, capacity in sorted(device.capacity.items()):
        amount = capacity.consumed(qualified(wanted, name, device.id.driver))
        if amount is None or amount > capacity.value:
            return None
        taken.append((name, amount))
    return tuple(taken)
