"""The rollout of a deployment's release: wave after wave, each observed before the next one.

    Pending ─► RollingOut ─► Baking ─► Done
                   └───────────┴─────► Failed: stop, and with autoRollback go back

A cluster runs the new release once its wave has started, and until then what it ran before. Masks
are above all of that: a cluster that runs a masked release leaves it at once.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from msgspec.structs import replace

from kilonova.api.inference_engine import Deployment, WaveStatus
from kilonova.api.meta import Condition
from kilonova.fleet.planning.model import FleetEvent
from kilonova.fleet.planning.releases import (
    RELEASE_MASKED,
    History,
    ReleaseChoice,
    add_revision,
    choose_release,
    find_stable,
    find_unmasked,
    judge,
)
from kilonova.fleet.planning.selection import describe_missing
from kilonova.fleet.planning.waves import (
    RolloutCluster,
    advance_wave,
    assign_waves,
    start_wave,
)


@dataclass(frozen=True, slots=True)
class RolloutPlan:
    """The releases of the clusters, and the state of the rollout."""

    releases: Mapping[str, str]
    """By cluster; empty where it runs nothing, and nothing can be placed."""
    last_good: Mapping[str, str]
    release: str
    current_wave: str
    waves: tuple[WaveStatus, ...]
    history: History
    conditions: tuple[Condition, ...]
    events: tuple[FleetEvent, ...] = ()
    is_active: bool = False
    """Whether instances are being updated, or observed."""


@dataclass(slots=True)
class _Rollout:
    """One pass over one rollout."""

    deployment: Deployment
    clusters: Sequence[RolloutCluster]
    existing: Collection[str]
    now: datetime
    frozen: bool
    choice: ReleaseChoice
    history: History
    waves: tuple[WaveStatus, ...]
    events: list[FleetEvent] = field(default_factory=list[FleetEvent])

    def record(self, reason: str, message: str, *, is_warning: bool = False) -> None:
        """Add an event of the deployment."""
        metadata = self.deployment.metadata
        self.events.append(
            FleetEvent("Deployment", metadata.namespace, metadata.name, reason, message, is_warning)
        )


def plan_rollout(
    deployment: Deployment,
    clusters: Sequence[RolloutCluster],
    existing: Collection[str],
    now: datetime,
    *,
    frozen: bool,
    history_limit: int,
) -> RolloutPlan:
    """Advance the rollout; `existing` are the releases of the namespace. A frozen rollout only
    follows masks."""
    spec, status = deployment.spec, deployment.status
    choice = choose_release(spec, status.history, existing)
    rollout = _Rollout(
        deployment, clusters, existing, now, frozen, choice, status.history, status.waves
    )
    _report_choice(rollout)
    if choice.release and (not frozen or choice.reason == RELEASE_MASKED):
        _start(rollout, history_limit)
        _advance(rollout)
    return _conclude(rollout)


def _report_choice(rollout: _Rollout) -> None:
    old = {(each.type, each.reason) for each in rollout.deployment.status.conditions}
    choice = rollout.choice
    if choice.reason and ("Progressing", choice.reason) not in old:
        rollout.record(choice.reason, choice.message, is_warning=True)


def _start(rollout: _Rollout, history_limit: int) -> None:
    """Start the rollout of another release than the latest one. The first release, and one that
    replaces a masked one, need no waves."""
    release, former = rollout.choice.release, rollout.history
    if former and former[0].release == release:
        return
    masked = rollout.deployment.spec.mask
    at_once = not former or former[0].release in masked or rollout.choice.reason == RELEASE_MASKED
    rollout.history = add_revision(former, release, rollout.now, history_limit)
    waves = assign_waves(rollout.deployment.spec.rollout, rollout.clusters)
    fresh = (
        WaveStatus(name=name, clusters=tuple(each.name for each in members))
        for name, members in waves
    )
    rollout.waves = tuple(start_wave(each, rollout.now) if at_once else each for each in fresh)
    how = " in all clusters at once" if at_once and former else ""
    rollout.record("RolloutStarted", f"Rolling out release {release}{how}")


def _advance(rollout: _Rollout) -> None:
    spec, release = rollout.deployment.spec, rollout.choice.release
    known = {each.name: each for each in rollout.waves}
    waves: list[WaveStatus] = []
    is_open = rollout.history[0].health != "Failing"
    is_placed = any(each.desired for each in rollout.clusters)
    named = {each.name: each.clusters for each in spec.rollout.waves}
    existing = {each.name for each in rollout.clusters}
    for name, members in assign_waves(spec.rollout, rollout.clusters):
        clusters = tuple(each.name for each in members)
        missing = describe_missing(named.get(name, ()), existing)
        old = known.get(name, WaveStatus(name=name))
        wave = WaveStatus(
            name=name,
            phase=old.phase,
            clusters=clusters,
            started=old.started,
            ready_since=old.ready_since,
            message=old.message,
        )
        if wave.phase == "Pending" and is_open and not spec.rollout.paused:
            wave = start_wave(wave, rollout.now)
            if members and len(known) > 1:
                rollout.record("WaveStarted", f"Wave {name}: {release} in {', '.join(clusters)}")
            if missing:
                rollout.record("ClusterNotFound", f"Wave {name}: {missing}", is_warning=True)
        if rollout.history[0].health != "Failing":
            wave = advance_wave(
                wave, members, release, spec.rollout, rollout.now, is_placed=is_placed
            )
        if missing not in wave.message:
            wave = replace(wave, message="; ".join(filter(None, (wave.message, missing))))
        is_open = is_open and wave.phase == "Done"
        if wave.phase == "Failed" and old.phase != "Failed":
            rollout.history = judge(rollout.history, "Failing")
            rollout.record("RolloutFailed", f"Wave {name}: {wave.message}", is_warning=True)
        waves.append(wave)
    rollout.waves = tuple(waves)
    is_done = all(each.phase == "Done" for each in rollout.waves)
    if is_done and rollout.history[0].health == "Unknown":
        rollout.history = judge(rollout.history, "Healthy")
        rollout.record("RolloutCompleted", f"Release {release} runs in all clusters")


def _conclude(rollout: _Rollout) -> RolloutPlan:
    releases = {each.name: _choose_for_cluster(rollout, each) for each in rollout.clusters}
    history, newest = rollout.history, rollout.history[0] if rollout.history else None
    last_good: dict[str, str] = {}
    for each in rollout.clusters:
        good = newest is not None and newest.health != "Failing" and _is_done(rollout, each.name)
        if good and newest is not None and each.runs(newest.release):
            last_good[each.name] = newest.release
        else:
            last_good[each.name] = each.last_good
    failed = newest is not None and newest.health == "Failing"
    release = newest.release if newest is not None else ""
    if failed and rollout.deployment.spec.rollout.auto_rollback:
        release = _find_stable(rollout) or release
    active = next((each for each in rollout.waves if each.phase != "Done"), None)
    is_active = active is not None and not failed and active.phase in ("RollingOut", "Baking")
    return RolloutPlan(
        releases,
        last_good,
        release,
        "" if active is None or failed else active.name,
        rollout.waves,
        history,
        _build_conditions(rollout, active),
        tuple(rollout.events),
        is_active,
    )


def _choose_for_cluster(rollout: _Rollout, cluster: RolloutCluster) -> str:
    spec = rollout.deployment.spec
    wanted = _choose_by_wave(rollout, cluster)
    if wanted not in spec.mask:
        return wanted
    return find_unmasked(rollout.history, spec.mask, rollout.existing) or cluster.current


def _choose_by_wave(rollout: _Rollout, cluster: RolloutCluster) -> str:
    """The release of a cluster, as if there were no masks."""
    if not rollout.history:
        return ""
    newest = rollout.history[0]
    former = cluster.current or _find_stable(rollout)
    if newest.health == "Failing":
        if former != newest.release or not rollout.deployment.spec.rollout.auto_rollback:
            return former
        good = cluster.last_good if cluster.last_good in rollout.existing else ""
        good = "" if good == newest.release else good
        return good or _find_stable(rollout) or former
    wave = next((each for each in rollout.waves if cluster.name in each.clusters), None)
    if wave is None or wave.started is not None:
        if rollout.frozen:
            return former
        return newest.release if cluster.is_reachable or not cluster.current else former
    return former or newest.release


def _find_stable(rollout: _Rollout) -> str:
    spec, history = rollout.deployment.spec, rollout.history
    return find_stable(history, spec.mask, rollout.existing, history[0].release)


def _is_done(rollout: _Rollout, cluster: str) -> bool:
    return any(cluster in each.clusters and each.phase == "Done" for each in rollout.waves)


def _build_conditions(rollout: _Rollout, active: WaveStatus | None) -> tuple[Condition, ...]:
    choice, newest = rollout.choice, rollout.history[0] if rollout.history else None
    spec = rollout.deployment.spec
    failed = newest is not None and newest.health == "Failing"
    paused = Condition("Paused", "False", "NotPaused")
    if rollout.frozen:
        message = "half of the clusters are unreachable at once: nothing is changed"
        paused = Condition("Paused", "True", "FleetFrozen", message)
    elif failed and not spec.rollout.auto_rollback:
        paused = Condition("Paused", "True", "RolloutFailed", active.message if active else "")
    elif spec.rollout.paused:
        paused = Condition("Paused", "True", "PausedBySpec", "spec.rollout.paused is set")
    if choice.reason:
        progressing = Condition("Progressing", "False", choice.reason, choice.message)
    elif failed and newest is not None:
        where = active.message if active is not None else ""
        back = " and was rolled back" if spec.rollout.auto_rollback else ""
        message = f"release {newest.release} failed{back}: {where}"
        progressing = Condition("Progressing", "False", "RolloutFailed", message)
    elif active is None:
        progressing = Condition("Progressing", "True", "RolloutComplete")
    else:
        message = f"wave {active.name}: {active.message}" if active.message else ""
        progressing = Condition("Progressing", "True", active.phase, message)
    return progressing, paused
