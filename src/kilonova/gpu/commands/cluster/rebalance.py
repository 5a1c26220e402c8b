"""Where the MIG instances of a cluster's pods should rather be. Pure."""

from collections import defaultdict
from collections.abc import Callable

import msgspec

from kilonova.catalog.mig import MigGeometry, Slot
from kilonova.gpu.commands.cluster.gpus import ClusterGpu, ClusterView
from kilonova.scheduler.core.gpu.rebalancing.plan import RebalanceSettings, plan_rebalance
from kilonova.scheduler.core.gpu.rebalancing.repack_state import FleetGpu, HeldInstance


class PodMove(msgspec.Struct, frozen=True, rename="camel"):
    """A pod that should be restarted elsewhere."""

    pod: str
    profile: str
    source: str
    """`NODE:GPU@START`."""
    target: str


class RebalanceReport(msgspec.Struct, frozen=True, rename="camel"):
    """The moves, and what they bring."""

    moves: tuple[PodMove, ...]
    free_before: float
    free_after: float
    """Capacity for the profiles that are requested, in empty GPUs."""
    benefit_seconds: float
    cost_seconds: float
    """Seconds of a whole GPU."""


def plan_cluster(
    view: ClusterView,
    find_geometry: Callable[[ClusterGpu], MigGeometry | None],
    settings: RebalanceSettings,
    restart_seconds: float,
) -> RebalanceReport:
    """Plan moves among the GPUs with MIG instances of a cluster.

    Unhealthy GPUs, and those that pods have without MIG, are left alone. The demand is what pods
    have now.
    """
    held: dict[tuple[str, int], list[HeldInstance]] = defaultdict(list)
    without_mig: set[tuple[str, int]] = set()
    counts: dict[str, int] = defaultdict(int)
    sliced: set[tuple[str, int, str]] = set()
    for each in view.slices:
        place = (each.node, each.gpu)
        if each.start is None:
            without_mig.add(place)
        elif each.holder:
            slot = Slot(each.profile, each.start)
            held[place].append(
                HeldInstance(slot, each.holder, each.state == "Allocated", restart_seconds)
            )
            sliced.add((*place, each.holder))
            counts[each.profile] += 1
    fleet: list[FleetGpu] = []
    for gpu in view.gpus:
        place = (gpu.node, gpu.index)
        has_whole = any((*place, holder) not in sliced for holder in gpu.holders)
        geometry = find_geometry(gpu)
        if geometry is None or has_whole or place in without_mig:
            continue
        name = f"{gpu.node}:{gpu.index}"
        fleet.append(FleetGpu(name, geometry, tuple(held[place]), is_frozen=not gpu.healthy))
    demand = tuple(sorted((profile, float(count)) for profile, count in counts.items()))
    plan = plan_rebalance(fleet, settings, demand=demand, now=0)
    return RebalanceReport(
        tuple(
            PodMove(
                each.holder,
                each.before.profile,
                f"{each.source}@{each.before.start}",
                f"{each.target}@{each.after.start}",
            )
            for each in plan.migrations
        ),
        plan.value_before,
        plan.value_after,
        plan.benefit,
        plan.cost,
    )
