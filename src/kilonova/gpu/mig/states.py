"""The states of devices and MIG instances, and the changes that are possible.

```
Discovered ⇄ MIGEnabled                       a device
                 │
          PartitionCreated                    an instance
                 ↓
             Available ⇄ Allocated ⇄ InUse
                 ↓
             Destroyed
```

An instance that was found at start (**adopted**) begins where it is. One that is lost with its
device is destroyed from any state.
"""

from collections.abc import Callable, Iterable
from enum import StrEnum

import msgspec

from kilonova.catalog.mig import Slot


class MigState(StrEnum):
    """The state of a device (the first two) or of an instance."""

    DISCOVERED = "Discovered"
    MIG_ENABLED = "MIGEnabled"
    PARTITION_CREATED = "PartitionCreated"
    AVAILABLE = "Available"
    ALLOCATED = "Allocated"
    """A pod holds it."""
    IN_USE = "InUse"
    """Processes run on it."""
    DESTROYED = "Destroyed"


_NEXT: dict[MigState | None, frozenset[MigState]] = {
    None: frozenset(MigState) - {MigState.DESTROYED},
    MigState.DISCOVERED: frozenset({MigState.MIG_ENABLED}),
    MigState.MIG_ENABLED: frozenset({MigState.DISCOVERED}),
    MigState.PARTITION_CREATED: frozenset({MigState.AVAILABLE, MigState.DESTROYED}),
    MigState.AVAILABLE: frozenset({MigState.ALLOCATED, MigState.IN_USE, MigState.DESTROYED}),
    MigState.ALLOCATED: frozenset({MigState.AVAILABLE, MigState.IN_USE, MigState.DESTROYED}),
    MigState.IN_USE: frozenset({MigState.AVAILABLE, MigState.ALLOCATED, MigState.DESTROYED}),
    MigState.DESTROYED: frozenset(),
}


class ChangeReason(StrEnum):
    """Why a state changed; the reasons of events."""

    ADOPTED = "InstanceAdopted"
    MODE_ENABLED = "MIGModeEnabled"
    MODE_DISABLED = "MIGModeDisabled"
    DEVICE_DISCOVERED = "GPUDiscovered"
    CREATED = "InstanceCreated"
    DESTROYED = "InstanceDestroyed"
    ALLOCATED = "InstanceAllocated"
    RELEASED = "InstanceReleased"
    STARTED = "ProcessStarted"
    STOPPED = "ProcessStopped"
    LOST = "InstanceLost"
    """It is gone without having been destroyed here."""


class StateChange(msgspec.Struct, frozen=True):
    """A change of the state of a device or, with a UUID, of an instance."""

    device: str
    after: MigState
    reason: ChangeReason
    before: MigState | None = None
    instance: str = ""
    slot: Slot | None = None
    holder: str = ""


class InvalidTransition(Exception):
    """A change that the states do not allow: a mistake of the caller."""

    def __init__(self, what: str, before: MigState | None, after: MigState) -> None:
        super().__init__(f"{what} cannot change from {before or 'unknown'} to {after}")


def check_transition(what: str, before: MigState | None, after: MigState) -> None:
    """Raise `InvalidTransition` where the change is not possible."""
    if after not in _NEXT[before]:
        raise InvalidTransition(what, before, after)


class InstanceStatus(msgspec.Struct, frozen=True):
    """An instance as the engine knows it."""

    device: str
    uuid: str
    slot: Slot
    state: MigState
    holder: str = ""


class StateTracker:
    """The states of all devices and instances of a node; reports every change."""

    def __init__(self, report: Callable[[StateChange], None]) -> None:
        self._report = report
        self._devices: dict[str, MigState] = {}
        self._instances: dict[str, InstanceStatus] = {}

    def device_state(self, device: str) -> MigState | None:
        """The state of a device; None if it is unknown."""
        return self._devices.get(device)

    def instance(self, uuid: str) -> InstanceStatus | None:
        """The instance of that UUID; None if it is unknown or destroyed."""
        return self._instances.get(uuid)

    def instances(self) -> tuple[InstanceStatus, ...]:
        """All instances, by device and slot."""
        return tuple(
            sorted(self._instances.values(), key=lambda each: (each.device, each.slot.start))
        )

    def move_device(self, device: str, after: MigState, reason: ChangeReason) -> None:
        """Change the state of a device; nothing happens if it has it already."""
        before = self._devices.get(device)
        if before is after:
            return
        if before is None and after is MigState.MIG_ENABLED:
            self.move_device(device, MigState.DISCOVERED, ChangeReason.DEVICE_DISCOVERED)
            before = MigState.DISCOVERED
        check_transition(device, before, after)
        self._devices[device] = after
        self._report(StateChange(device, after, reason, before))

    def add_instance(self, status: InstanceStatus, reason: ChangeReason) -> None:
        """An instance that was created or adopted."""
        check_transition(status.uuid, None, status.state)
        self._instances[status.uuid] = status
        self._tell(status, reason, None)

    def move_instance(
        self, uuid: str, after: MigState, reason: ChangeReason, holder: str = ""
    ) -> None:
        """Change the state of an instance; nothing happens if it has it already."""
        status = self._instances[uuid]
        if status.state is after and status.holder == holder:
            return
        moved = msgspec.structs.replace(status, state=after, holder=holder)
        if status.state is not after:
            check_transition(uuid, status.state, after)
        if after is MigState.DESTROYED:
            del self._instances[uuid]
            self._tell(msgspec.structs.replace(moved, holder=status.holder), reason, status.state)
        else:
            self._instances[uuid] = moved
            self._tell(moved, reason, status.state)

    def _tell(self, status: InstanceStatus, reason: ChangeReason, before: MigState | None) -> None:
        self._report(
            StateChange(
                status.device,
                status.state,
                reason,
                before,
                status.uuid,
                status.slot,
                status.holder,
            )
        )


class ProfileCount(msgspec.Struct, frozen=True):
    """How many instances of a profile are in a state."""

    profile: str
    state: MigState
    count: int


def count_states(instances: Iterable[InstanceStatus]) -> tuple[ProfileCount, ...]:
    """The number of instances by profile and state, for conditions and metrics."""
    counts: dict[tuple[str, MigState], int] = {}
    for each in instances:
        key = (each.slot.profile, each.state)
        counts[key] = counts.get(key, 0) + 1
    return tuple(
        ProfileCount(profile, state, count) for (profile, state), count in sorted(counts.items())
    )
