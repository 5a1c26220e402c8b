"""The controller of replicas. A key is one replica of a set."""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from kilonova.api.grove import PodCliqueScalingGroup, names
from kilonova.api.grove.parts import LastError
from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.api.times import rfc3339
from kilonova.kube import (
    ApiStatusError,
    Backoff,
    Conflict,
    Controller,
    Key,
    Resource,
    Result,
)
from kilonova.kube.batches import raise_first
from kilonova.workloads.caches import BY_REPLICA, scaled_parts
from kilonova.workloads.conditions import holds
from kilonova.workloads.keys import Replica
from kilonova.workloads.limits import (
    LIMIT_EXCEEDED,
    OVER_LIMIT,
    Excess,
    scale_excess,
    set_excess,
)
from kilonova.workloads.means import Means
from kilonova.workloads.pace import Pace
from kilonova.workloads.replicas.concerns import Concerns
from kilonova.workloads.replicas.desire import desire
from kilonova.workloads.replicas.gangstatus import SCHEDULED, gang_status, gives_way, is_pressing
from kilonova.workloads.replicas.groupstatus import group_report, refused_status
from kilonova.workloads.replicas.hands import Hands, Refused
from kilonova.workloads.replicas.known import RevisionReader
from kilonova.workloads.replicas.observed import Observed, is_going, observe
from kilonova.workloads.replicas.revision import revision_of_replica
from kilonova.workloads.replicas.termination import Verdict, judge
from kilonova.workloads.replicas.units import Units, units_of
from kilonova.workloads.resources import CLAIM_TEMPLATES, GANGS, GROUPS, SETS
from kilonova.workloads.revisions import SetRevision
from kilonova.workloads.sets.desire import wanted_replicas
from kilonova.workloads.statuses import status_patch

_NAME = "replicas"
_WORKERS = 64
_RETRIES = Backoff(0.005, 10.0)
"""What is in the way is often not ours to watch: its departure is found by trying again."""
_AGAIN = 10.0
"""Seconds: what makes a set too big may be scaled in elsewhere."""
_STEPS = 5
"""More than a replica ever takes from nothing: what still differs then is no use writing again."""


def build_replica_controller(means: Means) -> Controller:
    """Keeps every replica of every set; the caches must run beside it.

    What the server refuses is put into `complaints`.
    """
    rounds = _Rounds(means)
    controller = Controller(
        _NAME,
        rounds.reconcile,
        Concerns(means.caches).watches(),
        workers=_WORKERS,
        backoff=_RETRIES,
        instruments=means.instruments,
    )
    means.rush.listen(_NAME, controller.queue.add)
    return controller


@dataclass(frozen=True, slots=True)
class _Look:
    """A replica, and what follows at once from how it is."""

    seen: Observed
    revision: SetRevision
    groups: list[Units]
    verdict: Verdict


@dataclass(slots=True)
class _Round:
    """What one round has found out on its way."""

    replica: Replica
    claim_templates: dict[Key, JsonObject] = field(default_factory=dict[Key, JsonObject])
    has_fetched: bool = False
    refused: Refused | None = None
    excess: Excess | None = None


class _Rounds:
    def __init__(self, means: Means) -> None:
        self._client = means.client
        self._complaints = means.complaints
        self._caches = means.caches
        self._settings = means.settings
        self._now = means.now
        self._hands = Hands(means.client, means.caches, means.recorder, means.monotonic)
        self._revisions = RevisionReader(means.caches)
        self._rush = means.rush
        self._pace = Pace(means.settings.status_pace, means.monotonic, means.rush)

    async def reconcile(self, key: Key) -> Result | None:
        """One round of a replica."""
        round_ = _Round(Replica.of_key(key))
        await self._let_groups_go(round_.replica)
        look = await self._act(round_)
        if round_.excess is not None:
            return await self._refuse(round_.replica, round_.excess)
        error = _complaint(round_.refused, self._now()) if look is not None else None
        self._complaints.set(round_.replica, error)
        if look is None:
            return None
        waits = [*await self._tell(look, error), look.verdict.after]
        if round_.refused is not None:
            self._hands.tell_refused(look.seen.set_, round_.refused)
            raise round_.refused.error
        left = [each for each in waits if each is not None]
        return Result(min(left)) if left else None

    async def _refuse(self, replica: Replica, excess: Excess) -> Result:
        """Leave all of the replica as it is, and say why."""
        error = LastError(OVER_LIMIT, str(excess), rfc3339(self._now()))
        self._complaints.set(replica, error)
        set_ = self._caches.sets.store.get((replica.namespace, replica.set_name))
        if set_ is not None:
            self._hands.tell(SETS, set_.metadata, LIMIT_EXCEEDED, str(excess), bad=True)
        for group in self._caches.groups.store.find(BY_REPLICA, replica):
            patch = status_patch(group.status, refused_status(group, error))
            if patch is not None and not is_going(group.metadata):
                await self._hands.write_status(GROUPS, group.metadata, patch)
        return Result(_AGAIN)

    async def _act(self, round_: _Round) -> _Look | None:
        """Write until nothing differs; the replica as it is then, or None if there is to be none.

        What is written first lets more be written: cliques follow their gangs and groups.
        """
        for _ in range(_STEPS):
            look = self._look(round_)
            if look is None:
                return None
            seen, verdict = look.seen, look.verdict
            plan = desire(seen, look.revision, look.groups, verdict.cliques, self._settings)
            if plan.claim_templates and not round_.has_fetched:
                await self._fetch(round_, plan.claim_templates)
                continue
            if plan.is_empty:
                return look
            if verdict.whole:
                await self._announce(look)
            try:
                with self._rush.act():
                    await self._hands.carry_out(plan, seen.set_)
            except Refused as refused:
                round_.refused = refused
                break
            self._report_anew(look)
            for each in plan.first_creates:
                # What is new says that it is not ready yet; it is told soon, with what follows.
                self._pace.wrote((each.resource.kind, round_.replica.namespace, each.name))
        return self._look(round_)

    def _look(self, round_: _Round) -> _Look | None:
        replica = round_.replica
        set_ = self._caches.sets.store.get((replica.namespace, replica.set_name))
        if set_ is None or is_going(set_.metadata):
            return None
        if replica.index >= wanted_replicas(set_) or set_excess(set_.spec) is not None:
            return None
        known = self._revisions.of(set_)
        seen = observe(
            self._caches,
            replica,
            set_,
            known.current,
            known.by_hash,
            round_.claim_templates,
            self._now(),
        )
        revision = revision_of_replica(seen)
        if revision is None:
            return None
        round_.excess = self._excess(seen)
        if round_.excess is not None:
            return None
        groups = units_of(seen, revision)
        return _Look(seen, revision, groups, judge(seen, groups, self._now()))

    def _excess(self, seen: Observed) -> Excess | None:
        """Why the set is too big as this replica is scaled."""
        key = seen.set_.metadata.namespace, seen.set_.metadata.name
        own = (*seen.groups.values(), *seen.cliques.values())
        return scale_excess(seen.set_, own, partial(scaled_parts, self._caches, key))

    async def _fetch(self, round_: _Round, wanted: frozenset[Key]) -> None:
        """Read claim templates; one that is missing is looked for again and again."""
        round_.has_fetched = True
        for namespace, name in wanted:
            try:
                found = await self._client.get(CLAIM_TEMPLATES, name, namespace)
            except ApiStatusError as error:
                round_.refused = Refused("Read", CLAIM_TEMPLATES, name, error)
            else:
                round_.claim_templates[namespace, name] = found.spec

    async def _announce(self, look: _Look) -> None:
        """Tell that all is started anew before it is: so it is told though we crash between."""
        now = self._now()
        for units in look.groups:
            group = units.group
            if group is not None:
                report = group_report(look.seen, units, group, look.revision, now, terminates=True)
                patch = status_patch(group.status, report.status)
                if patch is not None:
                    await self._hands.write_status(GROUPS, group.metadata, patch)

    def _report_anew(self, look: _Look) -> None:
        verdict, seen = look.verdict, look.seen
        if verdict.whole:
            message = f"Started replica {seen.index} anew: it lacked pods it needs for too long"
            reason = "PodCliqueSetReplicaDeleteSuccessful"
            self._hands.tell(SETS, seen.set_.metadata, reason, message)
        for name, index in verdict.units:
            message = f"Started replica {index} anew: it lacked pods it needs for too long"
            reason = "PodCliqueScalingGroupReplicaDeleteSuccessful"
            self._hands.tell(GROUPS, seen.groups[name].metadata, reason, message)

    async def _tell(self, look: _Look, error: LastError | None) -> list[float | None]:
        """Write how groups and gangs are; after how many seconds there may be more to tell."""
        now = self._now()
        groups = [
            self._tell_group(look, units, units.group, error, now)
            for units in look.groups
            if units.group is not None
        ]
        results = await asyncio.gather(
            *groups, self._tell_gangs(look.seen, now), return_exceptions=True
        )
        raise_first(results)
        waits: list[float | None] = []
        for each in results:
            if isinstance(each, list):
                waits += each
        return waits

    async def _tell_group(
        self,
        look: _Look,
        units: Units,
        group: PodCliqueScalingGroup,
        error: LastError | None,
        now: datetime,
    ) -> list[float | None]:
        report = group_report(look.seen, units, group, look.revision, now, error=error)
        patch = status_patch(group.status, report.status)
        if patch is None:
            return [report.after]
        wait = self._wait(GROUPS, group.metadata)
        if wait > 0:
            return [report.after, wait]
        await self._hands.write_status(GROUPS, group.metadata, patch)
        return [report.after]

    async def _tell_gangs(self, seen: Observed, now: datetime) -> list[float | None]:
        live = [each for each in seen.gangs.values() if not is_going(each.metadata)]
        reports = [(each, gang_status(seen, each, now)) for each in live]
        writes: list[Awaitable[None]] = []
        waits: list[float | None] = []
        for gang, status in reports:
            patch = status_patch(gang.status, status)
            if patch is None:
                continue
            # Scaled gangs wait for their base to have its nodes.
            was, has = holds(gang.status.conditions, SCHEDULED), holds(status.conditions, SCHEDULED)
            is_awaited = len(live) > 1 and has and not was
            wait, yields = 0.0, gives_way(gang)
            if not is_awaited:
                pressing = is_pressing(gang, status)
                wait = self._wait(GANGS, gang.metadata, pressing=pressing, gives_way=yields)
            if wait > 0:
                waits.append(wait)
                if yields:
                    replica = Replica(gang.metadata.namespace, seen.set_.metadata.name, seen.index)
                    self._rush.await_end(_NAME, replica.key)
                continue
            # A scheduler tells of the gang here too: nothing that it says may be lost.
            patch["metadata"] = {"resourceVersion": gang.metadata.resource_version}
            writes.append(self._hands.write_status(GANGS, gang.metadata, patch))
        raise_first(await asyncio.gather(*writes, return_exceptions=True))
        return waits

    def _wait(
        self,
        resource: Resource[Any],
        metadata: Metadata,
        *,
        pressing: bool = True,
        gives_way: bool = False,
    ) -> float:
        """Seconds until a status may be written; if it may now, it is taken to be."""
        thing = (resource.kind, metadata.namespace, metadata.name)
        wait = self._pace.wait(thing, pressing=pressing, gives_way=gives_way)
        if not wait:
            self._pace.wrote(thing)
        return wait

    async def _let_groups_go(self, replica: Replica) -> None:
        """Groups that are deleted stand in nobody's way; what they own goes with them."""
        for group in self._caches.groups.store.find(BY_REPLICA, replica):
            known = group.metadata
            if is_going(known) and names.SCALING_GROUP_FINALIZER in known.finalizers:
                await self._hands.let_go(GROUPS, known, names.SCALING_GROUP_FINALIZER)


def _complaint(refused: Refused | None, now: datetime) -> LastError | None:
    """What people should know; what only has to be looked at again is no news."""
    if refused is None or isinstance(refused.error, Conflict):
        return None
    return LastError(refused.code, refused.description, rfc3339(now))
