"""Which members are reachable, by one timer for each: `suspectSince`, in the Cluster's status.

A member reports when the number of its report has changed. Clocks of members are not compared with
ours, and time in which the manager did not read the store does not count.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from msgspec.structs import replace

from kilonova.api.fleet import Cluster, ClusterStatus
from kilonova.api.meta import Condition
from kilonova.api.times import format_rfc3339, human_duration, parse_time
from kilonova.fleet.documents import Observed
from kilonova.fleet.planning.model import ClusterInput, FleetEvent, PlanSettings
from kilonova.kube.status import with_condition

NETWORK = "Network"
CONFIGURATION = "Configuration"
_MIN_FROZEN = 2
"""One member of two that is lost is no sign of a problem of the manager."""


@dataclass(frozen=True, slots=True)
class HealthTimes:
    """The times that health is judged by."""

    now: datetime
    observing_since: datetime
    calm_since: datetime
    settings: PlanSettings

    @property
    def may_give_up(self) -> bool:
        """Whether the manager has observed long enough to call a member lost."""
        return self.now - self.calm_since >= timedelta(seconds=self.settings.suspect_after)


def assess_reports(given: ClusterInput, times: HealthTimes) -> ClusterStatus:
    """The status by the last report: Unknown, Healthy or Suspect; one that is Lost stays so until
    it reports again."""
    status, observed = given.cluster.status, given.observed
    if observed is None:
        if status.health in ("Unknown", "Healthy") and status.last_seen is None:
            return replace(status, health="Unknown", reason=CONFIGURATION)
        return _record_silence(status, NETWORK, times)
    has_reported = observed.sequence != status.sequence
    status = replace(status, sequence=observed.sequence)
    if observed.reason:
        return _record_silence(replace(status, reason=observed.reason), observed.reason, times)
    return (
        _record_report(status, observed, times)
        if has_reported
        else _record_silence(status, NETWORK, times)
    )


def _record_report(status: ClusterStatus, observed: Observed, times: HealthTimes) -> ClusterStatus:
    now = format_rfc3339(times.now)
    returned = status.health in ("Suspect", "Lost")
    healthy_since = now if returned or status.healthy_since is None else status.healthy_since
    losses = status.losses
    reliable = timedelta(seconds=times.settings.forget_losses_after)
    if losses and times.now - parse_time(healthy_since) >= reliable:
        losses = 0
    return replace(
        status,
        health="Healthy",
        reason="",
        last_seen=now,
        suspect_since=None,
        healthy_since=healthy_since,
        losses=losses,
        nodes=observed.nodes,
        accelerators=observed.accelerators,
        instances=sum(each.replicas for each in observed.deployments),
        ready_instances=sum(each.ready for each in observed.deployments),
        epoch=observed.accepted_epoch or None,
    )


def _record_silence(status: ClusterStatus, reason: str, times: HealthTimes) -> ClusterStatus:
    if status.health in ("Suspect", "Lost"):
        return replace(status, reason=reason)
    since = times.observing_since
    if status.last_seen is not None:
        since = max(since, parse_time(status.last_seen))
    if times.now - since < timedelta(seconds=times.settings.suspect_after):
        return status
    return replace(status, health="Suspect", reason=reason, suspect_since=format_rfc3339(since))


def is_frozen(statuses: Sequence[tuple[Cluster, ClusterStatus]]) -> bool:
    """Whether half of the members, and more than one, became unreachable together.

    Members that were lost before do not count, nor those that people evacuate.
    """
    counted = [
        status.health
        for cluster, status in statuses
        if status.health in ("Healthy", "Suspect") and not cluster.spec.evacuated
    ]
    unreachable = counted.count("Suspect")
    return unreachable >= _MIN_FROZEN and 2 * unreachable >= len(counted)


def give_up(status: ClusterStatus, after: float, times: HealthTimes) -> ClusterStatus:
    """The status, Lost if it has been suspect for this many seconds."""
    if status.health != "Suspect" or not is_due(status, after, times):
        return status
    return replace(status, health="Lost", losses=status.losses + 1)


def is_due(status: ClusterStatus, after: float, times: HealthTimes) -> bool:
    """Whether an unreachable member's instances are to be placed elsewhere after this many
    seconds."""
    if status.suspect_since is None or not times.may_give_up:
        return False
    return times.now - parse_time(status.suspect_since) >= timedelta(seconds=after)


def settled_at(status: ClusterStatus, failback_after: float) -> datetime | None:
    """When a member that was lost may get instances back; each further loss doubles the time."""
    if not status.losses or status.healthy_since is None:
        return None
    window = failback_after * 2 ** min(status.losses - 1, 5)
    return parse_time(status.healthy_since) + timedelta(seconds=window)


def finish_status(
    given: ClusterInput, status: ClusterStatus, *, frozen: bool, now: datetime
) -> ClusterStatus:
    """The status with its conditions."""
    cluster = given.cluster
    conditions = with_condition(
        status.conditions, _build_reachable(given, status, frozen=frozen), now
    )
    conditions = with_condition(conditions, _build_schedulable(cluster, status), now)
    return replace(status, observed_generation=cluster.metadata.generation, conditions=conditions)


def _build_reachable(given: ClusterInput, status: ClusterStatus, *, frozen: bool) -> Condition:
    match status.health:
        case "Healthy":
            problems = given.observed.problems if given.observed is not None else ()
            return Condition("Reachable", "True", "Reporting", "; ".join(problems))
        case "Unknown":
            message = "it has never reported: is its agent running, with this name and store?"
            return Condition("Reachable", "Unknown", "NeverReported", message)
        case "Suspect" | "Lost":
            message = f"no report since {status.suspect_since} ({status.reason})"
            if frozen and status.health == "Suspect":
                message += ": half of the clusters are unreachable at once, nothing is moved"
                return Condition("Reachable", "Unknown", "FleetFrozen", message)
            known = "False" if status.health == "Lost" else "Unknown"
            return Condition("Reachable", known, status.health, message)


def _build_schedulable(cluster: Cluster, status: ClusterStatus) -> Condition:
    if cluster.spec.evacuated:
        return Condition("Schedulable", "False", "Evacuated", "its instances are moved away")
    if cluster.spec.cordoned:
        return Condition("Schedulable", "False", "Cordoned", "it gets no further instances")
    if status.health != "Healthy":
        return Condition("Schedulable", "False", "Unreachable", "it does not report")
    return Condition("Schedulable", "True", "Reporting", "")


def list_health_events(
    name: str, old: ClusterStatus, new: ClusterStatus, now: datetime
) -> list[FleetEvent]:
    """What changed, for people."""
    if old.health == new.health:
        return []

    def build(reason: str, message: str, *, is_warning: bool) -> list[FleetEvent]:
        return [FleetEvent("Cluster", "", name, reason, message, is_warning)]

    if new.health == "Suspect":
        message = f"No report since {new.suspect_since}: its instances count as last observed"
        return build("ClusterUnreachable", message, is_warning=True)
    if new.health == "Lost":
        message = f"No report since {new.suspect_since}: its instances are placed elsewhere"
        return build("ClusterLost", message, is_warning=True)
    if new.health == "Healthy" and old.suspect_since is not None:
        away = human_duration((now - parse_time(old.suspect_since)).total_seconds())
        return build("ClusterRecovered", f"It reports again, after {away}", is_warning=False)
    return []
