"""What must be true of a cluster, worked out the long way from its bookings."""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import combinations

from kilonova.scheduler.core.asks import Preference, Shape, implied
from kilonova.scheduler.core.cluster import Cluster, Standing, asked, charged
from kilonova.scheduler.core.devices import WHOLE, share_of
from kilonova.scheduler.core.forest import forest_of
from kilonova.scheduler.core.gangs import Gang, Group
from kilonova.scheduler.core.ledgers import Ledger
from kilonova.scheduler.core.plan import Placement, Plan, Refusal
from kilonova.scheduler.core.rights import (
    Claimant,
    Holder,
    kept_from_preemption,
    kept_from_reclaim,
)
from kilonova.scheduler.core.snapshot import GPU, Booking, Snapshot, mig_resource

Facts = Mapping[str, object]


def check_counts(snapshot: Snapshot) -> None:
    """What is used and free equals what bookings add up to."""
    for node in snapshot.nodes():
        row = snapshot.row(node.name)
        bookings = list(snapshot.pods_on[row].values())
        assert {b.pod: b for b in bookings} == {
            b.pod: b for b in snapshot.bookings.values() if b.row == row
        }
        used = used_on(bookings, snapshot, row)
        milli, masks = devices_on(bookings)
        layout = snapshot.layout(row)
        idle = 0
        for gpu in layout.gpus:
            free = (WHOLE if gpu.healthy else 0) - milli[gpu.index]
            assert snapshot.gpu_free[row, gpu.index] == free
            assert snapshot.gpu_mask[row, gpu.index] == masks[gpu.index]
            idle += free == WHOLE and not masks[gpu.index]
        assert not snapshot.gpu_free[row, len(layout.gpus) :].any()
        assert not snapshot.gpu_mask[row, len(layout.gpus) :].any()
        healthy = sum(gpu.healthy for gpu in layout.gpus)
        missing = max(0, healthy - node.allocatable.get(GPU, 0))
        for name, column in snapshot.resources.items():
            has = node.allocatable.get(name, implied(name))
            free = has - used[name]
            if name == GPU:
                free = min(free, idle - missing)
            assert snapshot.used[column, row] == used[name], name
            assert snapshot.free[column, row] == free, name


def used_on(bookings: Iterable[Booking], snapshot: Snapshot, row: int) -> Counter[str]:
    used: Counter[str] = Counter()
    for booking in bookings:
        used.update(dict(booking.shape.requests))
        ask = booking.shape.gpu
        if ask is not None and ask.profile and not booking.devices:
            used[mig_resource(ask.profile)] += ask.count
    return used


def devices_on(bookings: Iterable[Booking]) -> tuple[Counter[int], Counter[int]]:
    """Milli that are given of each device, and slices that are occupied."""
    milli: Counter[int] = Counter()
    masks: Counter[int] = Counter()
    for booking in bookings:
        for share in booking.devices:
            if share.mask:
                masks[share.index] |= share.mask
            else:
                milli[share.index] += share.milli
    return milli, masks


def check_queues(cluster: Cluster) -> None:
    """What queues use is what stands, and what stands is booked."""
    expected = Ledger(cluster.forest)
    for standing in cluster.standing.values():
        assert standing.pods
        for pod, amounts in standing.pods.items():
            booking = cluster.snapshot.bookings[pod]
            assert booking.gang == standing.gang.name
            assert amounts == charged(booking.shape)
            expected.charge(standing.gang.queue, amounts)
    for queue in {*cluster.forest.queues, *(one.gang.queue for one in cluster.standing.values())}:
        assert dict(cluster.used.of(queue)) == dict(expected.of(queue)), queue


def check_new_bookings(snapshot: Snapshot, new: Iterable[Booking]) -> None:
    """Nothing that was given is given twice, or is not there."""
    for booking in new:
        node = snapshot.node(booking.row)
        others = list(snapshot.pods_on[booking.row].values())
        used = used_on(others, snapshot, booking.row)
        for name, amount in booking.shape.requests:
            has = node.allocatable.get(name, implied(name))
            assert not amount or used[name] <= has, (booking.pod, name)
        check_labels(snapshot, booking)
        check_devices(snapshot, booking, others)


def check_labels(snapshot: Snapshot, booking: Booking) -> None:
    node, shape = snapshot.node(booking.row), booking.shape
    assert node.name not in shape.avoided
    assert all(node.labels.get(key) == value for key, value in shape.selector)
    for taint in node.taints:
        tolerated = any(one.key == taint.key for one in shape.tolerations)
        assert taint.effect == "PreferNoSchedule" or tolerated


def check_devices(snapshot: Snapshot, booking: Booking, others: list[Booking]) -> None:
    node, ask = snapshot.node(booking.row), booking.shape.gpu
    layout = snapshot.layout(booking.row)
    if ask is None:
        assert not booking.devices
        return
    if ask.profile and not booking.devices:
        used = used_on(others, snapshot, booking.row)[mig_resource(ask.profile)]
        assert used <= node.allocatable.get(mig_resource(ask.profile), 0)
        return
    assert len(booking.devices) == ask.count
    milli, masks = devices_on(others)
    slices: Counter[tuple[int, int]] = Counter()
    for other in others:
        for share in other.devices:
            slices.update((share.index, bit) for bit in range(9) if share.mask >> bit & 1)
    assert max(slices.values(), default=0) <= 1
    for share in booking.devices:
        gpu = layout.gpus[share.index]
        assert gpu.healthy
        assert gpu.memory >= ask.memory
        assert not ask.models or any(model in gpu.model for model in ask.models)
        assert milli[share.index] <= WHOLE
        assert not (milli[share.index] and masks[share.index])
        if ask.profile:
            assert gpu.mig is not None
            profile = gpu.mig.profile(ask.profile)
            assert profile is not None
            assert share.start in profile.starts
            assert share.mask == profile.mask(share.start)
        else:
            assert share.milli == share_of(gpu, ask)
    if not ask.profile:
        indices = [share.index for share in booking.devices]
        assert len(set(indices)) == ask.count
        if ask.preference is Preference.NVLINK_REQUIRED:
            linked = {link[:2] for link in layout.links}
            for pair in combinations(sorted(indices), 2):
                assert pair in linked or all(layout.gpus[one].port for one in pair)
    busy = {index for index in (*milli, *masks) if milli[index] or masks[index]}
    healthy = {index for index in busy if index < len(layout.gpus) and layout.gpus[index].healthy}
    assert len(healthy) <= node.allocatable.get(GPU, 0) or ask.profile


def check_gang(snapshot: Snapshot, placement: Placement) -> None:
    """All or nothing, and everything where it must stand together, or apart."""
    gang = placement.gang
    at = {booking.pod: snapshot.node(booking.row).name for booking in placement.bookings}
    assert set(at) <= {member.pod for group in gang.groups for member in group.members}
    assert at, "a gang of which nothing is placed was placed"
    nodes_of: dict[str, list[str]] = {}
    for group in gang.groups:
        new = [at[member.pod] for member in group.members if member.pod in at]
        assert len(new) + len(group.placed) >= group.minimum
        assert all(member.pod in at for member in group.members[: group.needed])
        nodes_of[group.name] = [*group.placed, *new]
        if new:
            _check_pack(snapshot, group.pack.required, nodes_of[group.name])
        _check_segments(snapshot, group, at)
    for bundle in gang.bundles:
        inside = [name for name in bundle.groups if name in nodes_of]
        if any(node in at.values() for name in inside for node in nodes_of[name]):
            nodes = [node for name in inside for node in nodes_of[name]]
            _check_pack(snapshot, bundle.pack.required, nodes)
    everywhere = [node for nodes in nodes_of.values() for node in nodes]
    within = [node for node in gang.within if node in snapshot]
    _check_pack(snapshot, gang.pack.required, [*within, *everywhere])
    if gang.apart is not None and gang.apart.required:
        level = gang.apart.level
        others = {_label(snapshot, level, node) for node in gang.apart.others if node in snapshot}
        for node in at.values():
            assert _label(snapshot, level, node) not in {*others, None}


def _check_pack(snapshot: Snapshot, level: str, nodes: list[str]) -> None:
    if level and nodes:
        values = {_label(snapshot, level, node) for node in nodes if node in snapshot}
        assert len(values) == 1, (level, nodes)
        assert None not in values


def _check_segments(snapshot: Snapshot, group: Group, at: Mapping[str, str]) -> None:
    if group.segments is None or group.placed:
        return
    size, level = group.segments.size, group.segments.level
    for start in range(0, len(group.members), size):
        segment = [m.pod for m in group.members[start : start + size] if m.pod in at]
        values = {_label(snapshot, level, at[pod]) for pod in segment}
        assert len(values) <= 1, (group.name, segment, at)
        assert None not in values


def _label(snapshot: Snapshot, level: str, node: str) -> str | None:
    return snapshot.node(snapshot.row(node)).labels.get(level)


def check_evictions(
    standing: Mapping[str, Standing],
    used: Ledger,
    budgets: Mapping[str, int],
    guards: Mapping[str, tuple[str, ...]],
    plan: Plan,
    now: float,
) -> None:
    """Only who may be taken is, wholly or what it can do without, each by right when all the others
    are gone; `standing` and the rest are as they were before."""
    used, left = used.copy(), dict(budgets)
    pods = {name: dict(one.pods) for name, one in standing.items()}
    for placement in plan.placements:
        gang = placement.gang
        claimant = Claimant(gang.queue, asked(gang), gang.priority)
        for unit in placement.evicted:
            victim = standing[unit.gang]
            assert victim.gang.name != gang.name
            _check_unit(victim.gang, pods[unit.gang], unit.pods)
            total: Counter[str] = Counter()
            for pod in unit.pods:
                amounts = pods[unit.gang].pop(pod)
                total.update(amounts)
                used.discharge(victim.gang.queue, amounts)
                for budget in guards[pod]:
                    left[budget] = left.get(budget, 0) - 1
                    assert left[budget] >= 0, "a disruption budget is overdrawn"
            assert {k: v for k, v in total.items() if v} == {
                k: v for k, v in unit.amounts.items() if v
            }
        for unit in placement.evicted:
            victim = standing[unit.gang]
            holder = Holder(
                victim.gang.queue,
                unit.amounts,
                victim.since,
                victim.gang.priority,
                victim.gang.preemptible,
            )
            same = victim.gang.queue == gang.queue
            keeps = kept_from_preemption if same else kept_from_reclaim
            with_it = used.copy()
            with_it.charge(victim.gang.queue, unit.amounts)
            assert keeps(with_it, claimant, holder, now) is None
        for booking in placement.bookings:
            used.charge(gang.queue, charged(booking.shape))


def _check_unit(gang: Gang, has: Mapping[str, object], pods: tuple[str, ...]) -> None:
    assert set(pods) <= set(has)
    if set(pods) == set(has):
        return
    assert len(pods) == 1
    for group in gang.groups:
        names = [member.pod for member in (*group.standing, *group.members)]
        if pods[0] in names:
            assert sum(name in has for name in names) - 1 >= group.minimum


def check_limits(before: Ledger, after: Ledger, plan: Plan) -> None:
    """No queue is above a limit by what was decided."""
    gained: dict[str, Counter[str]] = {}
    for placement in plan.placements:
        for queue in after.forest.path(placement.gang.queue):
            for booking in placement.bookings:
                gained.setdefault(queue, Counter()).update(charged(booking.shape))
    for queue, amounts in gained.items():
        for resource, limit in after.forest.queues[queue].limit.items():
            if amounts[resource]:
                assert after.of(queue).get(resource, 0) <= limit


def told(snapshot: Snapshot, plan: Plan) -> object:
    """A plan in words that do not depend on rows."""
    reservation = plan.reservation
    return (
        [_placement(snapshot, placement) for placement in plan.placements],
        [_refusal(refusal) for refusal in plan.refusals],
        reservation and (reservation.gang.name, reservation.at, reservation.nodes),
    )


def _placement(snapshot: Snapshot, placement: Placement) -> object:
    booked = sorted((b.pod, snapshot.names[b.row], b.devices) for b in placement.bookings)
    evicted = [(unit.gang, tuple(sorted(unit.pods))) for unit in placement.evicted]
    return placement.gang.name, booked, evicted


def _refusal(refusal: Refusal) -> object:
    return refusal.gang.name, type(refusal.why).__name__


def facts(cluster: Cluster) -> Facts:
    """All that a plan must leave as it was."""
    snapshot, size = cluster.snapshot, cluster.snapshot.size
    names = ("alive", "gpu_free", "gpu_mask", "gpu_memory", "gpu_missing", "layouts", "taints")
    return {
        **{name: getattr(snapshot, name)[:size].tolist() for name in names},
        "amounts": {
            name: (
                snapshot.allocatable[column, :size].tolist(),
                snapshot.used[column, :size].tolist(),
                snapshot.free[column, :size].tolist(),
            )
            for name, column in snapshot.resources.items()
            if snapshot.used[column].any()
            or (snapshot.allocatable[column].any() and not implied(name))
        },
        "bookings": dict(snapshot.bookings),
        "pods_on": [dict(pods) for pods in snapshot.pods_on],
        "standing": {
            name: (one.gang, one.since, dict(one.pods)) for name, one in cluster.standing.items()
        },
        "used": {name: dict(cluster.used.of(name)) for name in cluster.forest.queues},
        "budgets": dict(cluster.budgets),
        "history": cluster.history,
    }


def rebuilt(cluster: Cluster) -> Cluster:
    """The same cluster, told in another order."""
    other = Cluster(forest_of(()))
    other.replace_queues(cluster.forest)
    other.budgets, other.history = dict(cluster.budgets), cluster.history
    snapshot = cluster.snapshot
    for node in reversed(snapshot.nodes()):
        other.snapshot.put_node(node)
    for pod in sorted(snapshot.bookings, reverse=True):
        booking = snapshot.bookings[pod]
        row = other.snapshot.row(snapshot.names[booking.row])
        other.snapshot.book(Booking(booking.member, row, booking.devices, booking.gang))
    for name in sorted(cluster.standing, reverse=True):
        standing = cluster.standing[name]
        bookings = [other.snapshot.bookings[pod] for pod in standing.pods]
        other.stand(standing.gang, bookings, standing.since)
    return other


def shapes_of(gangs: Iterable[Gang]) -> list[Shape]:
    return list(
        dict.fromkeys(
            member.shape for gang in gangs for group in gang.groups for member in group.members
        )
    )
