"""A deployment in one cluster, as a pass sees it: what was decided and what is observed."""

from dataclasses import dataclass
from datetime import datetime

from kilonova.api.fleet import Cluster, ClusterStatus
from kilonova.api.inference_engine import ClusterDeploymentStatus, Deployment
from kilonova.fleet.documents import ObservedDeployment
from kilonova.fleet.planning.health import HealthTimes, is_due, settled_at
from kilonova.fleet.planning.placement import State
from kilonova.fleet.planning.selection import Bounds, find_bounds, read_seconds

_UNKNOWN = ClusterDeploymentStatus(cluster="")
_RETURNED_STABILITY = 0.25
"""Of a cluster that was lost lately."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A member in this pass."""

    cluster: Cluster
    status: ClusterStatus
    """As of this pass."""
    has_reported: bool

    @property
    def name(self) -> str:
        """The name of the cluster."""
        return self.cluster.metadata.name

    @property
    def is_reachable(self) -> bool:
        """Whether what is observed of it is current."""
        return self.status.health == "Healthy"


@dataclass(frozen=True, slots=True)
class Cell:
    """A deployment in one cluster."""

    view: ClusterView
    bounds: Bounds | None
    """None if no placement selects the cluster: it keeps instances until they run elsewhere."""
    previous: ClusterDeploymentStatus
    observed: ObservedDeployment | None
    current: int
    """The number of instances that it was assigned; if unknown, the number that it has."""
    state: State
    reason: str
    """Why it is in this state."""

    @property
    def name(self) -> str:
        """The name of the cluster."""
        return self.view.name

    @property
    def ready(self) -> int:
        """Ready instances that it is also to keep."""
        return min(self.observed.ready, self.current) if self.observed else 0

    @property
    def stuck(self) -> int:
        """Instances that it cannot place, as far as that was not acted upon before."""
        if self.observed is None or self.state != "open":
            return 0
        placed = self.observed.replicas - self.observed.unallocatable
        return max(0, min(self.observed.unallocatable, self.current - placed))

    @property
    def in_flight(self) -> int:
        """Instances that are on their way: to be created, placed, or made ready."""
        if self.observed is None:
            return self.current
        settled = self.observed.ready + self.observed.unallocatable + self.observed.failing
        return max(0, self.current - settled)

    @property
    def is_reliable(self) -> bool:
        """Whether ready instances count where others are taken away. Those of a suspect cluster
        do, as they were last observed, unless it was lost lately."""
        return self.view.is_reachable or self.state == "held"

    @property
    def weight(self) -> float:
        """How much the cluster is preferred."""
        spec = self.view.cluster.spec
        share = self.bounds.weight if self.bounds is not None else 0
        return share * spec.weight / 100 / (spec.cost or 1.0)

    @property
    def stability(self) -> float:
        """How much the cluster is to be relied on."""
        return _RETURNED_STABILITY if self.view.status.losses else 1.0


def build_cell(
    deployment: Deployment,
    view: ClusterView,
    observed: ObservedDeployment | None,
    previous: ClusterDeploymentStatus | None,
    times: HealthTimes,
    *,
    frozen: bool,
) -> Cell:
    """The cell of a deployment that asks for instances."""
    bounds = find_bounds(deployment.spec, view.cluster)
    adopted = 0 if observed is None else observed.replicas
    current = adopted if previous is None else previous.desired
    state, reason = _find_state(deployment, view, bounds, times, frozen=frozen)
    return Cell(view, bounds, previous or _UNKNOWN, observed, current, state, reason)


def _find_state(
    deployment: Deployment,
    view: ClusterView,
    bounds: Bounds | None,
    times: HealthTimes,
    *,
    frozen: bool,
) -> tuple[State, str]:
    status, spec, failover = view.status, view.cluster.spec, deployment.spec.failover
    since = status.suspect_since
    if frozen:
        return "held", "half of the clusters are unreachable at once: nothing is changed"
    if status.health == "Unknown":
        return "held", "it has never reported"
    if not view.is_reachable:
        if spec.evacuated or is_due(status, read_seconds(failover.after), times):
            return "gone", f"no report since {since}: its instances are placed elsewhere"
        state: State = "returning" if status.losses else "held"
        return state, f"no report since {since}: instances count as last observed"
    if spec.evacuated:
        return "leaving", "the cluster is evacuated"
    if bounds is None:
        return "leaving", "no placement selects the cluster"
    until = settled_at(status, read_seconds(failover.failback_after))
    if until is not None and times.now < until:
        return "returning", f"reachable again since {status.healthy_since}: nothing is changed yet"
    return "open", "cordoned" if spec.cordoned else ""


def is_waiting_for_probes(
    deployment: Deployment, cells: list[Cell], now: datetime, timeout: float
) -> bool:
    """Whether a deployment without instances still waits for members to report what fits."""
    if any(each.current for each in cells):
        return False
    unknown = [
        each
        for each in cells
        if each.state == "open"
        and (each.observed is None or each.observed.additional_replicas is None)
    ]
    if not unknown:
        return False
    history = deployment.status.history
    if not history or history[0].since is None:
        return True
    return (now - datetime.fromisoformat(history[0].since)).total_seconds() < timeout
