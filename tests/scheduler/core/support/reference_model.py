"""A slow reference model: invariants of a cluster, recomputed from its placements."""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import combinations

from kilonova.catalog.resource_names import GPU, mig_resource
from kilonova.scheduler.core.decisions import GangPlacement, Plan, UnschedulableGang
from kilonova.scheduler.core.gpu.layout import MILLI_PER_GPU, requested_share
from kilonova.scheduler.core.model.cluster import Cluster, RunningGang, gang_charges, shape_charges
from kilonova.scheduler.core.model.gangs import Gang, Group
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.requests import GpuPreference, Shape, implied_allocatable
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.preemption.rules import (
    PotentialVictim,
    Preemptor,
    find_preemption_protection,
    find_reclaim_protection,
)
from kilonova.scheduler.core.queueing.forest import build_queue_forest
from kilonova.scheduler.core.queueing.ledger import Ledger

Facts = Mapping[str, object]


def check_counts(snapshot: Snapshot) -> None:
    """Usage and free amounts equal the sums over the placements."""
    for node in snapshot.nodes():
        row = snapshot.row(node.name)
        placements = list(snapshot.pods_on[row].values())
        assert {b.pod: b for b in placements} == {
            b.pod: b for b in snapshot.placements.values() if b.row == row
        }
        used = used_on(placements, snapshot, row)
        milli, masks = devices_on(placements)
        layout = snapshot.layout(row)
        idle = 0
        for gpu in layout.gpus:
            free = (MILLI_PER_GPU if gpu.healthy else 0) - milli[gpu.index]
            assert snapshot.gpu_free[row, gpu.index] == free
            assert snapshot.gpu_mask[row, gpu.index] == masks[gpu.index]
            excess = sum(
                share.memory_milli - share.milli
                for each in placements
                for share in each.devices
                if share.index == gpu.index
            )
            assert snapshot.gpu_excess[row, gpu.index] == excess
            idle += free == MILLI_PER_GPU and not masks[gpu.index]
        assert not snapshot.gpu_free[row, len(layout.gpus) :].any()
        assert not snapshot.gpu_mask[row, len(layout.gpus) :].any()
        healthy = sum(gpu.healthy for gpu in layout.gpus)
        missing = max(0, healthy - node.allocatable.get(GPU, 0))
        for name, column in snapshot.resources.items():
            has = node.allocatable.get(name, implied_allocatable(name))
            free = has - used[name]
            if name == GPU:
                free = min(free, idle - missing)
            assert snapshot.used[column, row] == used[name], name
            assert snapshot.free[column, row] == free, name


def used_on(placements: Iterable[PodPlacement], snapshot: Snapshot, row: int) -> Counter[str]:
    used: Counter[str] = Counter()
    for placement in placements:
        used.update(dict(placement.shape.requests))
        request = placement.shape.gpu
        if request is not None and request.profile and not placement.devices:
            used[mig_resource(request.profile)] += request.count
    return used


def devices_on(placements: Iterable[PodPlacement]) -> tuple[Counter[int], Counter[int]]:
    """Milli used of each device, and occupied slices."""
    milli: Counter[int] = Counter()
    masks: Counter[int] = Counter()
    for placement in placements:
        for share in placement.devices:
            if share.mask:
                masks[share.index] |= share.mask
            else:
                milli[share.index] += share.milli
    return milli, masks


def check_queues(cluster: Cluster) -> None:
    """The usage of queues equals that of running gangs, whose pods are placed."""
    expected = Ledger(cluster.forest)
    for running_gang in cluster.running_gangs.values():
        assert running_gang.pods
        for pod, amounts in running_gang.pods.items():
            placement = cluster.snapshot.placements[pod]
            assert placement.gang == running_gang.gang.name
            assert amounts == shape_charges(placement.shape)
            expected.charge(running_gang.gang.queue, amounts)
    for queue in {
        *cluster.forest.queues,
        *(one.gang.queue for one in cluster.running_gangs.values()),
    }:
        assert dict(cluster.used.amounts_of(queue)) == dict(expected.amounts_of(queue)), queue


def check_new_placements(snapshot: Snapshot, new: Iterable[PodPlacement]) -> None:
    """New placements use only devices and amounts that exist and are free."""
    for placement in new:
        node = snapshot.node(placement.row)
        others = list(snapshot.pods_on[placement.row].values())
        used = used_on(others, snapshot, placement.row)
        for name, amount in placement.shape.requests:
            has = node.allocatable.get(name, implied_allocatable(name))
            assert not amount or used[name] <= has, (placement.pod, name)
        check_labels(snapshot, placement)
        check_devices(snapshot, placement, others)


def check_labels(snapshot: Snapshot, placement: PodPlacement) -> None:
    node, shape = snapshot.node(placement.row), placement.shape
    assert node.name not in shape.avoided_nodes
    assert all(node.labels.get(key) == value for key, value in shape.node_selector)
    for taint in node.taints:
        tolerated = any(one.key == taint.key for one in shape.tolerations)
        assert taint.effect == "PreferNoSchedule" or tolerated


def check_devices(snapshot: Snapshot, placement: PodPlacement, others: list[PodPlacement]) -> None:
    node, request = snapshot.node(placement.row), placement.shape.gpu
    layout = snapshot.layout(placement.row)
    if request is None:
        assert not placement.devices
        return
    if request.profile and not placement.devices:
        used = used_on(others, snapshot, placement.row)[mig_resource(request.profile)]
        assert used <= node.allocatable.get(mig_resource(request.profile), 0)
        return
    assert len(placement.devices) == request.count
    milli, masks = devices_on(others)
    slices: Counter[tuple[int, int]] = Counter()
    for other in others:
        for share in other.devices:
            slices.update((share.index, bit) for bit in range(9) if share.mask >> bit & 1)
    assert max(slices.values(), default=0) <= 1
    for share in placement.devices:
        gpu = layout.gpus[share.index]
        assert gpu.healthy
        assert gpu.memory >= request.memory
        assert not request.models or any(model in gpu.model for model in request.models)
        assert milli[share.index] <= MILLI_PER_GPU
        assert not (milli[share.index] and masks[share.index])
        if request.profile:
            assert gpu.mig is not None
            profile = gpu.mig.profile(request.profile)
            assert profile is not None
            assert share.start in profile.starts
            assert share.mask == profile.mask_at(share.start)
        else:
            assert (share.milli, share.memory_milli) == requested_share(gpu, request)
    if not request.profile:
        indices = [share.index for share in placement.devices]
        assert len(set(indices)) == request.count
        if request.preference is GpuPreference.NVLINK_REQUIRED:
            linked = {link[:2] for link in layout.links}
            for pair in combinations(sorted(indices), 2):
                assert pair in linked or all(layout.gpus[one].port for one in pair)
    busy = {index for index in (*milli, *masks) if milli[index] or masks[index]}
    healthy = {index for index in busy if index < len(layout.gpus) and layout.gpus[index].healthy}
    assert len(healthy) <= node.allocatable.get(GPU, 0) or request.profile


def check_gang(snapshot: Snapshot, placement: GangPlacement) -> None:
    """All or nothing, and all topology constraints hold."""
    gang = placement.gang
    at = {
        pod_placement.pod: snapshot.node(pod_placement.row).name for pod_placement in placement.pods
    }
    assert set(at) <= {member.pod for group in gang.groups for member in group.members}
    assert at, "a gang of which nothing is placed was placed"
    nodes_of: dict[str, list[str]] = {}
    for group in gang.groups:
        new = [at[member.pod] for member in group.members if member.pod in at]
        assert len(new) + len(group.placed_nodes) >= group.minimum
        assert all(member.pod in at for member in group.members[: group.needed])
        nodes_of[group.name] = [*group.placed_nodes, *new]
        if new:
            _check_pack(snapshot, group.pack.required, nodes_of[group.name])
        _check_segments(snapshot, group, at)
    for bundle in gang.bundles:
        inside = [name for name in bundle.groups if name in nodes_of]
        if any(node in at.values() for name in inside for node in nodes_of[name]):
            nodes = [node for name in inside for node in nodes_of[name]]
            _check_pack(snapshot, bundle.pack.required, nodes)
    everywhere = [node for nodes in nodes_of.values() for node in nodes]
    within = [node for node in gang.base_nodes if node in snapshot]
    _check_pack(snapshot, gang.pack.required, [*within, *everywhere])
    if gang.anti_affinity is not None and gang.anti_affinity.required:
        level = gang.anti_affinity.level
        others = {
            _label(snapshot, level, node)
            for node in gang.anti_affinity.avoided_nodes
            if node in snapshot
        }
        for node in at.values():
            assert _label(snapshot, level, node) not in {*others, None}


def _check_pack(snapshot: Snapshot, level: str, nodes: list[str]) -> None:
    if level and nodes:
        values = {_label(snapshot, level, node) for node in nodes if node in snapshot}
        assert len(values) == 1, (level, nodes)
        assert None not in values


def _check_segments(snapshot: Snapshot, group: Group, at: Mapping[str, str]) -> None:
    if group.segments is None or group.placed_nodes:
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
    standing: Mapping[str, RunningGang],
    used: Ledger,
    budgets: Mapping[str, int],
    guards: Mapping[str, tuple[str, ...]],
    plan: Plan,
    now: float,
) -> None:
    """Only evictable gangs are evicted, wholly or by surplus pods, each permitted when all the
    others are evicted; `standing` and the rest are the state before."""
    used, left = used.copy(), dict(budgets)
    pods = {name: dict(one.pods) for name, one in standing.items()}
    for placement in plan.placements:
        gang = placement.gang
        preemptor = Preemptor(gang.queue, gang_charges(gang), gang.priority)
        for unit in placement.victims:
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
        for unit in placement.victims:
            victim = standing[unit.gang]
            holder = PotentialVictim(
                victim.gang.queue,
                unit.amounts,
                victim.since,
                victim.gang.priority,
                victim.gang.preemptible,
            )
            same = victim.gang.queue == gang.queue
            keeps = find_preemption_protection if same else find_reclaim_protection
            with_it = used.copy()
            with_it.charge(victim.gang.queue, unit.amounts)
            assert keeps(with_it, preemptor, holder, now) is None
        for pod_placement in placement.pods:
            used.charge(gang.queue, shape_charges(pod_placement.shape))


def _check_unit(gang: Gang, has: Mapping[str, object], pods: tuple[str, ...]) -> None:
    assert set(pods) <= set(has)
    if set(pods) == set(has):
        return
    assert len(pods) == 1
    for group in gang.groups:
        names = [member.pod for member in (*group.placed_members, *group.members)]
        if pods[0] in names:
            assert sum(name in has for name in names) - 1 >= group.minimum


def check_limits(before: Ledger, after: Ledger, plan: Plan) -> None:
    """No queue exceeds a limit by what was decided."""
    gained: dict[str, Counter[str]] = {}
    for placement in plan.placements:
        for queue in after.forest.path(placement.gang.queue):
            for pod_placement in placement.pods:
                gained.setdefault(queue, Counter()).update(shape_charges(pod_placement.shape))
    for queue, amounts in gained.items():
        for resource, limit in after.forest.queues[queue].limit.items():
            if amounts[resource]:
                assert after.amounts_of(queue).get(resource, 0) <= limit


def summarize_plan(snapshot: Snapshot, plan: Plan) -> object:
    """A plan in a form that does not depend on rows."""
    reservation = plan.backfill_reservation
    return (
        [_summarize_placement(snapshot, placement) for placement in plan.placements],
        [_summarize_unschedulable(unschedulable) for unschedulable in plan.unschedulable],
        reservation and (reservation.gang.name, reservation.start_time, reservation.nodes),
    )


def _summarize_placement(snapshot: Snapshot, placement: GangPlacement) -> object:
    booked = sorted((b.pod, snapshot.names[b.row], b.devices) for b in placement.pods)
    evicted = [(unit.gang, tuple(sorted(unit.pods))) for unit in placement.victims]
    return placement.gang.name, booked, evicted


def _summarize_unschedulable(unschedulable: UnschedulableGang) -> object:
    return unschedulable.gang.name, type(unschedulable.reason).__name__


def facts(cluster: Cluster) -> Facts:
    """Everything that a plan must leave unchanged."""
    snapshot, size = cluster.snapshot, cluster.snapshot.size
    names = (
        "alive",
        "gpu_free",
        "gpu_mask",
        "gpu_excess",
        "gpu_memory",
        "gpu_missing",
        "layouts",
        "taints",
    )
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
            or (snapshot.allocatable[column].any() and not implied_allocatable(name))
        },
        "placements": dict(snapshot.placements),
        "pods_on": [dict(pods) for pods in snapshot.pods_on],
        "standing": {
            name: (one.gang, one.since, dict(one.pods))
            for name, one in cluster.running_gangs.items()
        },
        "used": {name: dict(cluster.used.amounts_of(name)) for name in cluster.forest.queues},
        "budgets": dict(cluster.budgets),
        "history": cluster.history,
    }


def rebuild_cluster(cluster: Cluster) -> Cluster:
    """The same cluster, built in another order."""
    other = Cluster(build_queue_forest(()))
    other.replace_queues(cluster.forest)
    other.budgets, other.history = dict(cluster.budgets), cluster.history
    snapshot = cluster.snapshot
    for node in reversed(snapshot.nodes()):
        other.snapshot.put_node(node)
    for pod in sorted(snapshot.placements, reverse=True):
        placement = snapshot.placements[pod]
        row = other.snapshot.row(snapshot.names[placement.row])
        other.snapshot.add_pod(
            PodPlacement(placement.member, row, placement.devices, placement.gang)
        )
    for name in sorted(cluster.running_gangs, reverse=True):
        running_gang = cluster.running_gangs[name]
        placements = [other.snapshot.placements[pod] for pod in running_gang.pods]
        other.record_placed(running_gang.gang, placements, running_gang.since)
    return other


def shapes_of(gangs: Iterable[Gang]) -> list[Shape]:
    return list(
        dict.fromkeys(
            member.shape for gang in gangs for group in gang.groups for member in group.members
        )
    )
