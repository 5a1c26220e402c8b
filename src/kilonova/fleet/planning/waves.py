"""The waves of a rollout: which clusters each one has, and how far it is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from msgspec.structs import replace

from kilonova.api.fleet import Cluster
from kilonova.api.inference_engine import Rollout, WaveStatus
from kilonova.api.times import format_rfc3339, parse_time
from kilonova.fleet.documents import ObservedDeployment
from kilonova.fleet.planning.selection import read_seconds, selects

REMAINING = "remaining"
"""The last wave, if `spec.rollout.waves` leaves clusters out."""
ALL = "all"
"""The only wave, if there are none in the spec."""


@dataclass(frozen=True, slots=True)
class RolloutCluster:
    """A cluster that a deployment may have instances in."""

    cluster: Cluster
    current: str
    """The release that it was assigned; empty if none."""
    last_good: str
    desired: int
    is_reachable: bool
    observed: ObservedDeployment | None

    @property
    def name(self) -> str:
        """The name of the cluster."""
        return self.cluster.metadata.name

    def runs(self, release: str) -> bool:
        """Whether all its instances run the release, and as many as desired are ready."""
        found = self.observed
        if found is None or found.release != release or found.updated < found.replicas:
            return False
        others = any(each.release != release and each.replicas for each in found.releases)
        return not others and found.ready >= self.desired - found.unallocatable

    def count_failing(self, release: str) -> int:
        """How many instances of the release fail."""
        found = self.observed
        return found.failing if found is not None and found.release == release else 0


def assign_waves(
    rollout: Rollout, clusters: Sequence[RolloutCluster]
) -> list[tuple[str, tuple[RolloutCluster, ...]]]:
    """The waves with their clusters, each of which is in the first one that names it."""
    left = {each.name: each for each in clusters}
    waves: list[tuple[str, tuple[RolloutCluster, ...]]] = []
    for wave in rollout.waves:
        names = [
            name
            for name, each in left.items()
            if name in wave.clusters
            or (wave.cluster_selector is not None and selects(wave.cluster_selector, each.cluster))
        ]
        waves.append((wave.name, tuple(left.pop(name) for name in names)))
    if left or not waves:
        waves.append((REMAINING if waves else ALL, tuple(left.values())))
    return waves


def start_wave(status: WaveStatus, now: datetime) -> WaveStatus:
    """The wave as it begins."""
    return replace(
        status, phase="RollingOut", started=format_rfc3339(now), ready_since=None, message=""
    )


def advance_wave(
    status: WaveStatus,
    members: Sequence[RolloutCluster],
    release: str,
    rollout: Rollout,
    now: datetime,
    *,
    is_placed: bool,
) -> WaveStatus:
    """A wave that has started, as it is now. Unreachable clusters are not waited for, and a wave
    without instances is over once there are instances in another one (`is_placed`)."""
    if status.phase not in ("RollingOut", "Baking"):
        return status
    members = [each for each in members if each.desired]
    if not members:
        phase = "Done" if is_placed else status.phase
        return replace(status, phase=phase, message="has no instances")
    reachable = [each for each in members if each.is_reachable]
    failing = sum(each.count_failing(release) for each in reachable)
    if failing > rollout.max_failing:
        message = f"{failing} instances of {release} fail; maxFailing is {rollout.max_failing}"
        return replace(status, phase="Failed", message=message)
    if status.phase == "RollingOut":
        return _await_ready(status, reachable, release, rollout, now)
    return _bake(status, rollout, now)


def _await_ready(
    status: WaveStatus,
    reachable: Sequence[RolloutCluster],
    release: str,
    rollout: Rollout,
    now: datetime,
) -> WaveStatus:
    waiting = [each.name for each in reachable if not each.runs(release)]
    if not waiting:
        return replace(status, phase="Baking", ready_since=format_rfc3339(now), message="")
    where = ", ".join(waiting)
    deadline = read_seconds(rollout.progress_deadline)
    if status.started is not None and _is_over(status.started, deadline, now):
        message = f"not ready within {rollout.progress_deadline}: {where}"
        return replace(status, phase="Failed", message=message)
    return replace(status, message=f"waits for {where}")


def _bake(status: WaveStatus, rollout: Rollout, now: datetime) -> WaveStatus:
    times: Mapping[str, str | None] = {each.name: each.bake_time for each in rollout.waves}
    bake_time = read_seconds(times.get(status.name) or rollout.bake_time)
    if status.ready_since is not None and _is_over(status.ready_since, bake_time, now):
        return replace(status, phase="Done")
    return status


def _is_over(since: str, seconds: float, now: datetime) -> bool:
    return now - parse_time(since) >= timedelta(seconds=seconds)
