"""One pass over one deployment: its rollout, its targets, and how far they may be followed now."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from kilonova.api.inference_engine import Deployment
from kilonova.fleet.planning.capacity import Capacity, Footprint
from kilonova.fleet.planning.cells import Cell, is_waiting_for_probes
from kilonova.fleet.planning.model import ObjectKey, PlanSettings
from kilonova.fleet.planning.placement import Candidate, Spread, Targets, choose_targets
from kilonova.fleet.planning.rollout import RolloutPlan, plan_rollout
from kilonova.fleet.planning.selection import find_domain
from kilonova.fleet.planning.waves import RolloutCluster


@dataclass(frozen=True, slots=True)
class CellPlan:
    """What a cluster is to run of a deployment."""

    cell: Cell
    release: str
    desired: int
    reason: str

    @property
    def added(self) -> int:
        """How many more instances than before; negative if less."""
        return self.desired - self.cell.current


@dataclass(frozen=True, slots=True)
class DeploymentPlan:
    """What all clusters are to run of a deployment."""

    deployment: Deployment
    total: int
    cells: tuple[CellPlan, ...]
    rollout: RolloutPlan
    unplaced: int
    delayed: int


def plan_deployment(
    deployment: Deployment,
    cells: Sequence[Cell],
    total: int,
    existing: Collection[str],
    footprints: dict[str, Footprint],
    capacity: Capacity,
    now: datetime,
    settings: PlanSettings,
    *,
    frozen: bool,
) -> DeploymentPlan:
    """Decide, and record the bookings. `existing` are the releases of the namespace."""
    rollout = plan_rollout(
        deployment,
        [_to_rollout_cluster(each) for each in cells],
        existing,
        now,
        frozen=frozen,
        history_limit=settings.history_limit,
    )
    placer = _Placer(deployment, list(cells), total, rollout, footprints, capacity)
    # A deployment that users set to 0 has none anywhere.
    placer.is_ending = total == 0 and not frozen
    waits = is_waiting_for_probes(deployment, placer.cells, now, settings.probe_timeout)
    return placer.wait() if waits else placer.plan()


def _to_rollout_cluster(cell: Cell) -> RolloutCluster:
    previous = cell.previous
    adopted = cell.observed.release if cell.observed is not None and not previous.release else ""
    return RolloutCluster(
        cell.view.cluster,
        previous.release or adopted,
        previous.last_good_release,
        cell.current,
        cell.view.is_reachable,
        cell.observed,
    )


@dataclass(slots=True)
class _Placer:
    deployment: Deployment
    cells: list[Cell]
    total: int
    rollout: RolloutPlan
    footprints: dict[str, Footprint]
    capacity: Capacity
    is_ending: bool = False

    def wait(self) -> DeploymentPlan:
        """Change no numbers."""
        candidates = [self._to_candidate(each) for each in self.cells]
        desired = [each.current for each in self.cells]
        return self._build_plan(candidates, desired, Targets(unplaced=0, delayed=self.total))

    def plan(self) -> DeploymentPlan:
        """Targets, and as much of them as may be desired now."""
        candidates = [self._to_candidate(each) for each in self.cells]
        targets = self._choose_targets(candidates)
        return self._build_plan(candidates, self._limit_drains(candidates), targets)

    def _build_plan(
        self, candidates: Sequence[Candidate], desired: Sequence[int], targets: Targets
    ) -> DeploymentPlan:
        plans = tuple(
            CellPlan(cell, self.rollout.releases[cell.name], count, self._explain(cell, candidate))
            for cell, candidate, count in zip(self.cells, candidates, desired, strict=True)
        )
        for each in plans:
            footprint = self.footprints.get(each.release, Footprint())
            self.capacity.add_booking(each.cell.name, self._key, footprint, max(0, each.added))
        return DeploymentPlan(
            self.deployment, self.total, plans, self.rollout, targets.unplaced, targets.delayed
        )

    @property
    def _key(self) -> ObjectKey:
        metadata = self.deployment.metadata
        return metadata.namespace, metadata.name

    def _to_candidate(self, cell: Cell) -> Candidate:
        spec, bounds = self.deployment.spec, cell.bounds
        is_cordoned = cell.view.cluster.spec.cordoned
        high = None if bounds is None else bounds.high
        if is_cordoned:
            high = cell.current if high is None else min(high, cell.current)
        return Candidate(
            cell.name,
            find_domain(spec, cell.view.cluster),
            "leaving" if self.is_ending else cell.state,
            cell.current,
            low=0 if bounds is None or is_cordoned else min(bounds.low, self.total),
            high=high,
            capacity=self._count_additional(cell),
            weight=cell.weight,
            stability=cell.stability,
            stuck=cell.stuck,
        )

    def _count_additional(self, cell: Cell) -> int:
        release, observed = self.rollout.releases[cell.name], cell.observed
        if cell.state != "open" or observed is None or observed.release != release or not release:
            return 0
        footprint = self.footprints.get(release, Footprint())
        return self.capacity.count_additional(cell.name, self._key, footprint, observed)

    def _choose_targets(self, candidates: Sequence[Candidate]) -> Targets:
        spread = self.deployment.spec.spread
        at_once = self.deployment.spec.failover.max_concurrent
        in_flight = sum(each.in_flight for each in self.cells if each.view.is_reachable)
        is_calm = in_flight == 0 and all(
            each.state not in ("held", "returning") for each in self.cells
        )
        return choose_targets(
            candidates,
            self.total,
            None if spread is None else Spread(spread.max_skew),
            may_move=max(0, at_once - in_flight),
            may_rebalance=is_calm and not self.rollout.is_active,
        )

    def _limit_drains(self, candidates: Sequence[Candidate]) -> list[int]:
        """Follow the targets, but take ready instances away only where more are ready than are
        asked for."""
        ready = sum(each.ready for each in self.cells if each.is_reliable)
        budget = max(0, ready - self.total)
        desired: list[int] = []
        for cell, candidate in zip(self.cells, candidates, strict=True):
            if candidate.state == "gone":
                # What it runs if it is only cut off goes on until it returns.
                desired.append(cell.current)
                continue
            surplus = cell.current - candidate.target
            if surplus <= 0:
                desired.append(candidate.target)
                continue
            idle = min(surplus, cell.current - cell.ready)
            drained = min(surplus - idle, budget)
            budget -= drained
            desired.append(cell.current - idle - drained)
        return desired

    def _explain(self, cell: Cell, candidate: Candidate) -> str:
        if cell.reason:
            return cell.reason
        observed = cell.observed
        if observed is None or observed.additional_replicas is None:
            return "waits for the cluster to report how many instances fit"
        if cell.stuck:
            return f"{cell.stuck} instances cannot be placed: {observed.message}"
        if candidate.high is not None and candidate.target >= candidate.high:
            return f"at its maximum of {candidate.high}"
        if not observed.additional_replicas:
            return f"no further instance fits: {observed.message}".rstrip(": ")
        return _describe_score(cell, candidate.domain if self.deployment.spec.spread else "")


def _describe_score(cell: Cell, domain: str) -> str:
    """What decides how many instances a cluster gets, beside what fits."""
    spec, bounds = cell.view.cluster.spec, cell.bounds
    parts = [f"weight {spec.weight}"]
    if bounds is not None and bounds.weight != 1:
        parts.append(f"of the placement {bounds.weight}")
    if spec.cost:
        parts.append(f"cost {spec.cost:g}")
    if domain and domain != cell.name:
        parts.append(f"spread over {domain}")
    if cell.stability < 1:
        parts.append("lost lately")
    return ", ".join(parts)
