"""The holder of each slot: a slot belongs to a holder before its instance is made."""

from collections.abc import Iterable, Mapping

import msgspec

from kilonova.catalog.mig import MigGeometry, Slot
from kilonova.gpu.mig.journal import Reserved
from kilonova.gpu.mig.plan.occupancy import profile_name
from kilonova.gpu.mig.plan.planner import PinnedInstance, Refusal, RefusalReason


class SlotRequest(msgspec.Struct, frozen=True, order=True):
    """A slot of a device, by the UUID of the device."""

    device: str
    slot: Slot

    def __str__(self) -> str:
        return f"{self.slot} on {self.device}"


class ReservedDevices(msgspec.Struct, frozen=True):
    """The slots and devices that a holder, such as a pod, has."""

    slots: tuple[SlotRequest, ...] = ()
    devices: tuple[str, ...] = ()
    """UUIDs of devices that it uses without MIG, as a whole or shared."""


class ReservationTable:
    """The holders of slots and of devices. In memory; the journal keeps the slots."""

    def __init__(self, reservations: Iterable[Reserved] = ()) -> None:
        self._holders: dict[SlotRequest, str] = {}
        self._users: dict[str, set[str]] = {}
        for each in reservations:
            self._holders[SlotRequest(each.device, each.slot)] = each.holder

    def holder_of(self, device: str, slot: Slot) -> str:
        """The holder of a slot; empty if it has none."""
        return self._holders.get(SlotRequest(device, slot), "")

    def holders(self) -> frozenset[str]:
        """All holders, of slots and of devices."""
        return frozenset(self._holders.values()).union(*self._users.values())

    def slots_of(self, holder: str) -> tuple[SlotRequest, ...]:
        """The slots of a holder."""
        return tuple(sorted(slot for slot, each in self._holders.items() if each == holder))

    def pinned(self, device: str) -> tuple[PinnedInstance, ...]:
        """All reserved slots of a device."""
        return tuple(
            PinnedInstance(each.slot, holder)
            for each, holder in sorted(self._holders.items())
            if each.device == device
        )

    def users_of(self, device: str) -> frozenset[str]:
        """The holders that use a device without MIG."""
        return frozenset(self._users.get(device, ()))

    def devices_of(self, holder: str) -> tuple[str, ...]:
        """The devices that a holder uses without MIG."""
        return tuple(sorted(uuid for uuid, users in self._users.items() if holder in users))

    def add(self, holder: str, requests: Iterable[SlotRequest]) -> None:
        """Give slots to a holder."""
        for each in requests:
            self._holders[each] = holder

    def set_users(self, holder: str, devices: Iterable[str]) -> None:
        """Note the devices that a holder uses without MIG."""
        for users in self._users.values():
            users.discard(holder)
        for device in devices:
            self._users.setdefault(device, set()).add(holder)

    def remove_slots(self, requests: Iterable[SlotRequest]) -> None:
        """Take slots back that could not be recorded."""
        for each in requests:
            self._holders.pop(each, None)

    def remove(self, holder: str) -> tuple[SlotRequest, ...]:
        """Take everything from a holder; returns the slots that it had."""
        slots = self.slots_of(holder)
        self.remove_slots(slots)
        for users in self._users.values():
            users.discard(holder)
        return slots


def check_requests(
    holder: str,
    requests: Iterable[SlotRequest],
    geometries: Mapping[str, MigGeometry],
    table: ReservationTable,
) -> tuple[Refusal, ...]:
    """Why the holder cannot have these slots: unknown devices and profiles, starts
    that are not listed, and slices that another holder, or another of the requests, has."""
    refusals: list[Refusal] = []
    taken: dict[str, list[tuple[int, str, Slot]]] = {}
    for request in requests:
        problem = _check_request(request, geometries)
        if problem is not None:
            refusals.append(msgspec.structs.replace(problem, holder=holder))
            continue
        device, slot = request.device, request.slot
        if device not in taken:
            taken[device] = [
                (_mask(geometries[device], each.slot), each.holder, each.slot)
                for each in table.pinned(device)
                if each.holder != holder
            ]
        mask = _mask(geometries[device], slot)
        for other, owner, where in taken[device]:
            if mask & other:
                refusals.append(
                    Refusal(
                        RefusalReason.SLICES_IN_USE,
                        f"the slices of {slot} on {device} belong to {where} of {owner}",
                        holder,
                    )
                )
        taken[device].append((mask, holder, slot))
    return tuple(refusals)


def normalise_request(request: SlotRequest, geometries: Mapping[str, MigGeometry]) -> SlotRequest:
    """The request with the profile's name as the device uses it."""
    geometry = geometries.get(request.device)
    if geometry is None:
        return request
    name = profile_name(geometry, request.slot.profile)
    return SlotRequest(request.device, Slot(name, request.slot.start))


def _check_request(request: SlotRequest, geometries: Mapping[str, MigGeometry]) -> Refusal | None:
    geometry = geometries.get(request.device)
    if geometry is None:
        return Refusal(
            RefusalReason.MIG_NOT_SUPPORTED,
            f"{request.device} is no device with MIG of this node",
        )
    profile = geometry.profile(request.slot.profile)
    if profile is None:
        names = ", ".join(each.name for each in geometry.profiles)
        return Refusal(
            RefusalReason.UNKNOWN_PROFILE,
            f"{request.slot.profile!r} is no profile of {geometry.name}: {names}",
        )
    if request.slot.start not in profile.starts:
        starts = ", ".join(map(str, profile.starts))
        return Refusal(
            RefusalReason.INVALID_START, f"{request.slot}: {profile.name} starts at {starts}"
        )
    return None


def _mask(geometry: MigGeometry, slot: Slot) -> int:
    profile = geometry.profile(slot.profile)
    return 0 if profile is None else profile.mask_at(slot.start)
