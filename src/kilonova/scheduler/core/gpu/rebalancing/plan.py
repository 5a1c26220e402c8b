"""Rebalancing: which instances of many GPUs should be elsewhere, and whether it is worth it. Pure.

Instances that pods have cannot be moved; their pods can be evicted, and restart in a better
place. The **benefit** of a move is the remaining value that the GPUs gain, for as long as it lasts
(`benefit_seconds`): seconds of a whole GPU, as far as the demand can use them. Its **cost** is the
work that is lost: seconds of the share of a GPU. A move is planned where the benefit exceeds the
cost by the **hysteresis**, and no rebalancing follows another within the minimum interval.

First GPUs of which less than `min_utilization` is held are emptied, one after the other, where that
pays off; then single instances are moved. Nothing is moved to an empty GPU.
"""

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from kilonova.catalog.mig import MigGeometry
from kilonova.scheduler.core.gpu.mig import ProfileDemand
from kilonova.scheduler.core.gpu.rebalancing.repack_state import FleetGpu, Migration, RepackState


class RebalanceSettings(msgspec.Struct, frozen=True):
    """When rebalancing is worth it."""

    min_interval: float = 300.0
    min_utilization: float = 0.3
    """GPUs of which a smaller share is held are emptied, where possible."""
    hysteresis: float = 0.5
    """The part of the cost by which the benefit must exceed it."""
    benefit_seconds: float = 3600.0
    """How long a better packing lasts."""
    max_migrations: int = 64

    def is_worth_it(self, gain: float, cost: float) -> bool:
        """Whether the benefit of gaining so many GPUs exceeds a cost by the hysteresis."""
        return gain * self.benefit_seconds > (1 + self.hysteresis) * cost


class RepackPlan(msgspec.Struct, frozen=True):
    """The moves, and what they bring."""

    migrations: tuple[Migration, ...] = ()
    value_before: float = 0.0
    value_after: float = 0.0
    """Remaining value for the demand, in empty GPUs."""
    cost: float = 0.0
    """Seconds of a whole GPU."""
    benefit: float = 0.0
    skipped: str = ""
    """Why nothing was planned; empty if it was looked for."""


def plan_rebalance(
    gpus: Sequence[FleetGpu],
    settings: RebalanceSettings,
    *,
    demand: ProfileDemand = (),
    now: float,
    last: float | None = None,
) -> RepackPlan:
    """Plan moves among GPUs of one place, such as a node or a cluster. `now` and the time of the
    `last` rebalancing are in seconds."""
    if last is not None and now - last < settings.min_interval:
        return RepackPlan(
            skipped=f"the last rebalancing was {now - last:.0f} s ago, "
            f"the interval is {settings.min_interval:.0f} s"
        )
    by_geometry: dict[MigGeometry, list[FleetGpu]] = defaultdict(list)
    for gpu in gpus:
        by_geometry[gpu.geometry].append(gpu)
    plans: list[RepackPlan] = []
    allowed = settings.max_migrations
    for geometry, alike in by_geometry.items():
        plan = _plan_alike(RepackState(alike, geometry, demand), settings, allowed)
        allowed -= len(plan.migrations)
        plans.append(plan)
    return RepackPlan(
        tuple(each for plan in plans for each in plan.migrations),
        sum(plan.value_before for plan in plans),
        sum(plan.value_after for plan in plans),
        sum(plan.cost for plan in plans),
        sum(plan.benefit for plan in plans),
    )


def _plan_alike(state: RepackState, settings: RebalanceSettings, allowed: int) -> RepackPlan:
    before = state.value
    ratio = 1 + settings.hysteresis
    moved: set[int] = set()
    emptied: set[int] = set()
    rejected: set[tuple[str, ...]] = set()
    for gpu in state.drain_order(settings.min_utilization):
        instances = state.instances_on(gpu)
        kind = tuple(sorted(str(state.instances[each].slot) for each in instances))
        if len(moved) + len(instances) > allowed or kind in rejected:
            continue
        if moved.isdisjoint(instances) and _drain(state, gpu, instances, emptied, settings):
            moved.update(instances)
            emptied.add(gpu)
            rejected.clear()
        else:
            rejected.add(kind)
    while len(moved) < allowed:
        best = next(
            (
                each
                for each in state.best_moves(settings.benefit_seconds, ratio)
                if each[0] not in moved and each[1] not in emptied
            ),
            None,
        )
        if best is None:
            break
        state.move(*best)
        moved.add(best[0])
    return RepackPlan(
        state.migrations(),
        before,
        state.value,
        sum(state.cost(each) for each in moved),
        (state.value - before) * settings.benefit_seconds,
    )


def _drain(
    state: RepackState,
    gpu: int,
    instances: Sequence[int],
    emptied: set[int],
    settings: RebalanceSettings,
) -> bool:
    """Move everything off a GPU; all is moved back where that does not pay off."""
    if not all(state.is_movable(each) for each in instances):
        return False
    before = state.value
    done: list[tuple[int, int, int]] = []
    for instance in instances:
        target = state.best_target(instance, emptied | {gpu})
        if target is None:
            break
        done.append((instance, *state.move(instance, *target)))
    cost = sum(state.cost(each) for each in instances)
    if len(done) == len(instances) and settings.is_worth_it(state.value - before, cost):
        return True
    for instance, home, start in reversed(done):
        state.move(instance, home, start)
    return False
