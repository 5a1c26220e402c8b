"""Where room is kept: as it is written to the status of a reservation, and as it is booked.

What is kept is so many equal pods on a node, and all GPUs that are kept for them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kilonova.api.gpus import Unreadable
from kilonova.api.scheduling import ReservedNode
from kilonova.scheduler.core.asks import GpuAsk, Shape, is_for_queues
from kilonova.scheduler.core.devices import WHOLE, Share
from kilonova.scheduler.core.gangs import Gang, Group, Member
from kilonova.scheduler.core.mig import profile_of
from kilonova.scheduler.core.snapshot import GPU, PODS, Booking, Snapshot, mig_resource
from kilonova.scheduler.reading.amounts import amounts_of, quantity_of
from kilonova.scheduler.reading.gpus import devices_text, shares_of

Places = tuple[ReservedNode, ...]
_Ask = tuple[tuple[str, int], ...]


def lacking(wanted: Gang, places: Places) -> Gang:
    """What of a gang has no place yet, to be placed beside the rest; without members if all has."""
    left = {each: _node_names(places, each) for each in map(_ask_of_place, places)}
    groups: list[Group] = []
    for group in wanted.groups:
        placed: list[str] = []
        members: list[Member] = []
        for member in group.members:
            nodes = left.get(_ask_of(member.shape))
            if nodes:
                placed.append(nodes.pop(0))
            else:
                members.append(member)
        groups.append(replace(group, members=tuple(members), placed=tuple(placed)))
    return replace(wanted, groups=tuple(groups))


def suits(wanted: Gang, places: Places, snapshot: Snapshot) -> bool:
    """Whether places are such as are asked for, if perhaps not all of them."""
    if not places:
        return True
    asked = Counter(_ask_of(each.shape) for group in wanted.groups for each in group.members)
    selectors: dict[_Ask, list[dict[str, str]]] = {}
    for group in wanted.groups:
        for each in group.members[:1]:
            selectors.setdefault(_ask_of(each.shape), []).append(dict(each.shape.selector))
    domains: set[str | None] = set()
    for place in places:
        ask = _ask_of_place(place)
        asked[ask] -= place.pods
        labels: Mapping[str, str] = {}
        if place.name in snapshot:
            labels = snapshot.node(snapshot.row(place.name)).labels
        domains.add(labels.get(wanted.pack.required))
        if not any(each.items() <= dict(labels).items() for each in selectors.get(ask, ())):
            return False
    return min(asked.values()) >= 0 and (not wanted.pack.required or len(domains) == 1)


def adopted(wanted: Gang, users: Iterable[Booking], names: Sequence[str]) -> Places:
    """Places of those who stand somewhere already and count for what is asked for."""
    asks = [member for group in wanted.groups for member in group.members]
    found: list[Booking] = []
    for user in sorted(users, key=lambda each: each.pod):
        has = dict(_ask_of(user.shape))
        for member in asks:
            ask = _ask_of(member.shape)
            if all(has.get(name, 0) >= amount for name, amount in ask):
                devices = user.devices[: dict(ask).get(GPU)]
                found.append(replace(user, member=member, devices=devices))
                asks.remove(member)
                break
    return places_of(found, names)


def places_of(bookings: Iterable[Booking], names: Sequence[str]) -> Places:
    """Bookings as they are remembered: equal pods on a node together."""
    together: dict[tuple[str, _Ask], list[Booking]] = {}
    for booking in bookings:
        together.setdefault((names[booking.row], _ask_of(booking.shape)), []).append(booking)
    return tuple(
        ReservedNode(
            node,
            len(some),
            {name: _quantity(name, amount) for name, amount in ask},
            devices_text(_summed(share for each in some for share in each.devices)),
        )
        for (node, ask), some in sorted(together.items())
    )


def booking_at(snapshot: Snapshot, gang: str, number: int, place: ReservedNode) -> Booking | None:
    """A place as what is booked for it; None if its node or its devices are not there."""
    if place.name not in snapshot:
        return None
    row = snapshot.row(place.name)
    devices: tuple[Share, ...] = ()
    if place.devices:
        read = shares_of(place.devices, snapshot.layout(row))
        if isinstance(read, Unreadable):
            return None
        devices = read
    amounts = {name: amount * place.pods for name, amount in _ask_of_place(place)}
    ask: GpuAsk | None = None
    for name in list(amounts):
        if (profile := profile_of(name)) is not None:
            ask = GpuAsk(amounts.pop(name), profile=profile)
    if GPU in amounts:
        ask = GpuAsk(amounts[GPU])
    elif ask is None and devices:
        ask = GpuAsk(1, sum(share.milli for share in devices))
    amounts[PODS] = place.pods
    member = Member(f"{gang}/{place.name}/{number}", Shape(tuple(sorted(amounts.items())), ask))
    return Booking(member, row, devices, gang)


def _ask_of(shape: Shape) -> _Ask:
    """What pods are told apart by that room is kept for."""
    amounts = {
        name: amount
        for name, amount in shape.requests
        if amount and name != PODS and is_for_queues(name)
    }
    if shape.gpu is not None and shape.gpu.profile:
        amounts[mig_resource(shape.gpu.profile)] = shape.gpu.count
    return tuple(sorted(amounts.items()))


def _ask_of_place(place: ReservedNode) -> _Ask:
    return tuple(sorted(amounts_of(place.requests).items()))


def _node_names(places: Places, ask: _Ask) -> list[str]:
    return [
        place.name for place in places if _ask_of_place(place) == ask for _ in range(place.pods)
    ]


def _quantity(name: str, amount: int) -> str:
    return quantity_of(name, amount * WHOLE if name == GPU else amount)


def _summed(shares: Iterable[Share]) -> tuple[Share, ...]:
    """Shares of one device together."""
    milli: dict[int, int] = {}
    found: list[Share] = []
    for share in shares:
        if share.mask:
            found.append(share)
        else:
            milli[share.index] = milli.get(share.index, 0) + share.milli
    found += [Share(index, amount) for index, amount in milli.items()]
    return tuple(sorted(found, key=lambda share: (share.index, share.start)))
