"""Events and journal entries: what a pass decided, for people."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kilonova.api.inference_engine.names import INSTANCE_RELOCATED
from kilonova.fleet.planning.deployment import CellPlan, DeploymentPlan
from kilonova.fleet.planning.model import Decision, FleetEvent
from kilonova.kube.status import find_condition

INSUFFICIENT_CAPACITY = "InsufficientCapacity"


@dataclass(frozen=True, slots=True)
class Move:
    """Instances that are placed in other clusters than before."""

    source: str
    instances: int
    target: str
    """The clusters that get them: `b (2), c (1)`."""
    why: str


def find_relocations(plan: DeploymentPlan) -> list[Move]:
    """Instances that their clusters cannot place, and that are placed elsewhere in this pass."""
    return [
        move for move, cell in _pair_moves(plan) if cell.cell.stuck and cell.cell.state == "open"
    ]


def count_moved(plan: DeploymentPlan) -> int:
    """How many instances this pass places in other clusters than before."""
    return sum(move.instances for move, _ in _pair_moves(plan))


def _pair_moves(plan: DeploymentPlan) -> list[tuple[Move, CellPlan]]:
    """Sources with the clusters that get their instances.

    Instances of clusters that are gone or left are counted when they are placed elsewhere; those
    that a cluster cannot place are taken from it at the same time.
    """
    targets = [(each.cell.name, each.added) for each in plan.cells if each.added > 0]
    moved = sum(added for _, added in targets)
    moves: list[tuple[Move, CellPlan]] = []
    for cell, leaving in _list_sources(plan):
        count = min(leaving, moved)
        if count <= 0:
            continue
        moved -= count
        where = _take(targets, count)
        why = cell.cell.reason or "the cluster cannot place them"
        moves.append((Move(cell.cell.name, count, where, why), cell))
    return moves


def _list_sources(plan: DeploymentPlan) -> Iterator[tuple[CellPlan, int]]:
    """Clusters with the number of instances that are to run elsewhere from now on."""
    for cell in plan.cells:
        if cell.cell.state == "open":
            yield cell, min(cell.cell.stuck, max(0, -cell.added))
    yield from ((each, each.cell.current) for each in plan.cells if each.cell.state == "leaving")
    # What was asked for before and is neither there nor added for another reason.
    asked = min(plan.total, plan.deployment.status.desired)
    left = asked - sum(each.cell.current for each in plan.cells if each.cell.state != "gone")
    for cell in plan.cells:
        if cell.cell.state == "gone":
            count = max(0, min(cell.cell.current, left))
            left -= count
            yield cell, count


def _take(targets: list[tuple[str, int]], count: int) -> str:
    """Take instances from the front of the list of clusters that get some."""
    parts: list[str] = []
    while count and targets:
        name, available = targets.pop(0)
        taken = min(available, count)
        count -= taken
        if available > taken:
            targets.insert(0, (name, available - taken))
        parts.append(f"{name} ({taken})")
    return ", ".join(parts)


def list_events(plan: DeploymentPlan) -> list[FleetEvent]:
    """The events of one deployment."""
    metadata = plan.deployment.metadata
    events = list(plan.rollout.events)

    def record(reason: str, message: str, *, is_warning: bool = False) -> None:
        events.append(
            FleetEvent("Deployment", metadata.namespace, metadata.name, reason, message, is_warning)
        )

    for move, _ in _pair_moves(plan):
        message = f"Moved {move.instances} instances from {move.source} to {move.target}"
        record(INSTANCE_RELOCATED, f"{message}: {move.why}")
    for release, clusters in _list_masked(plan):
        where = ", ".join(f"{name} to {target}" for name, target in clusters)
        record("ReleaseMasked", f"Release {release} is masked: {where}", is_warning=True)
    allocated = find_condition(plan.deployment.status.conditions, "Allocated")
    was_short = allocated is not None and allocated.reason == INSUFFICIENT_CAPACITY
    if plan.unplaced and not was_short:
        message = f"No cluster has capacity for {plan.unplaced} instances"
        record(INSUFFICIENT_CAPACITY, message, is_warning=True)
    return events


def _list_masked(plan: DeploymentPlan) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Masked releases with the clusters that leave them in this pass."""
    for release in plan.deployment.spec.mask:
        left = [
            (each.cell.name, each.release)
            for each in plan.cells
            if each.cell.previous.release == release != each.release and each.cell.current
        ]
        if left:
            yield release, left


def list_decisions(plan: DeploymentPlan) -> list[Decision]:
    """The journal entries of one deployment."""
    metadata = plan.deployment.metadata
    key = f"{metadata.namespace}/{metadata.name}"
    decisions: list[Decision] = []
    for each in plan.cells:
        cell = each.cell
        if each.added:
            what = f"{key} in {cell.name}: {cell.current} to {each.desired} instances"
            decisions.append(Decision(what, each.reason, cell.name, key))
        if each.release != cell.previous.release and (each.desired or cell.current):
            former = cell.previous.release or "nothing"
            what = f"{key} in {cell.name}: release {former} to {each.release}"
            decisions.append(Decision(what, _explain_release(plan), cell.name, key))
    return decisions


def _explain_release(plan: DeploymentPlan) -> str:
    reasons: Sequence[str] = [f"{each.reason}: {each.message}" for each in plan.rollout.events]
    return "; ".join(reasons) or f"wave {plan.rollout.current_wave}"
