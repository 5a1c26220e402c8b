"""Tells people and other controllers what was decided: conditions of gangs and pods, events.

- A PodGang's condition `Unschedulable` says why it has no place, its `placementScore` how good the
  one is that it has. `PodGroupScheduled` of a PodGroup of Kubernetes says why it has none. To
  PodGroups of coscheduling nothing is written: their controller does.
- A pod for which there is no room gets `PodScheduled` False with the reason `Unschedulable`, for
  which autoscalers buy nodes. One that only its queue holds back gets `QueueLimit`, for which they
  do not.

Each is written only where the caches show something else, and what changes again and again at most
every few seconds. For pods that find a place at once only events are written, and for a gang its
score.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from kilonova.api.json import JsonObject
from kilonova.api.meta import Condition
from kilonova.api.podgang import PodGang
from kilonova.kube import (
    UNMEASURED,
    Client,
    Conflict,
    Controller,
    Instruments,
    Key,
    NotFound,
    Resource,
    Result,
    Store,
)
from kilonova.kube.events import Recorder, Reference
from kilonova.scheduler.core.gangs import Gang
from kilonova.scheduler.core.optimality import placement_score
from kilonova.scheduler.core.plan import Placement, Refusal, Reservation
from kilonova.scheduler.core.snapshot import Booking
from kilonova.scheduler.objects import GANGS, PODS, Pod
from kilonova.scheduler.reading.gangs import NotYet, is_lone, is_placeable, pod_of_lone
from kilonova.scheduler.rejections import Rejection
from kilonova.scheduler.speaking import subject_of, told_by, wire
from kilonova.scheduler.verdicts import (
    TERMINATING,
    Verdict,
    placed_verdict,
    refused_verdict,
    rejected_verdict,
    waiting_verdict,
)
from kilonova.scheduler.world import World

_WORKERS = 8
_SOON = 0.001
"""A wait shorter than this is none: a clock may not be able to tell it."""
_FEW = 50
"""So many lone pods may be told of in one go; of more, their binding says it. And so many pods of a
gang get an event whenever the message about it changes."""

T = TypeVar("T")

Explain = Callable[[Refusal, Reservation | None], str]
"""Says why a gang has no place; asked only when it is told."""

_News = Verdict | tuple[Refusal, Reservation | None]


class Teller:
    """Keeps the newest verdict about each gang, and a controller that writes them."""

    def __init__(
        self,
        client: Client,
        world: World,
        gangs: Store[PodGang],
        events: Recorder,
        explain: Explain,
        now: Callable[[], datetime],
        *,
        pace: float,
        levels: Sequence[str] = (),
        instruments: Instruments = UNMEASURED,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._world = world
        self._gangs = gangs
        self._events = events
        self._explain = explain
        self._now = now
        self._pace = pace
        self._levels = levels
        self._monotonic = monotonic
        self._news: dict[Key, tuple[Gang, _News]] = {}
        self._told_at: dict[Key, float] = {}
        self.controller = Controller(
            "teller", self._write, [], workers=_WORKERS, instruments=instruments
        )

    def refused(self, refusals: Sequence[Refusal], reservation: Reservation | None) -> None:
        """Gangs that found no place in a round."""
        self._forget_gone()
        for refusal in refusals:
            self._tell(refusal.gang, (refusal, reservation))

    def unreadable(self, misread: Mapping[str, NotYet]) -> None:
        """Gangs and pods that ask for something that nobody can read."""
        for name, why in misread.items():
            verdict = Verdict(False, why.reason, why.message, gated=True)
            known = self._news.get(_key(name))
            if known is None or known[1] != verdict:
                self._tell(Gang(name, ()), verdict)

    def placed(self, placement: Placement, failed: list[Booking]) -> None:
        """A gang whose bindings are written, but for some."""
        if not failed:
            key = _key(placement.gang.name)
            if not _is_lone(key) or len(self._news) < _FEW:
                self._announce(placement)
            known = self._news.pop(key, None)
            if not _is_lone(key) or known is not None:
                self._tell(placement.gang, placed_verdict(placement))

    def waits(self, gang: Gang, pods: Sequence[str]) -> None:
        """A gang has a place, and waits until pods have left it."""
        verdict = waiting_verdict(pods)
        known = self._news.get(_key(gang.name))
        if known is None or known[1] != verdict:
            self._tell(gang, verdict)

    def rejected(self, gang: Gang, rejections: Sequence[Rejection]) -> None:
        """Bindings of a gang that the API server rejected."""
        if rejections:
            self._tell(gang, rejected_verdict(rejections))

    def _forget_gone(self) -> None:
        """Those who went while they waited are not told of any more; looked for now and then."""
        waiting, misread = self._world.waiting, self._world.misread
        if len(self._news) > 2 * (len(waiting) + len(misread)) + _FEW:
            for key in list(self._news):
                name = "/".join(key)
                if name not in waiting and name not in misread:
                    self._news.pop(key)
                    self._told_at.pop(key, None)

    def _tell(self, gang: Gang, news: _News) -> None:
        key = _key(gang.name)
        self._news[key] = gang, news
        self.controller.queue.add(key)

    async def _write(self, key: Key) -> Result | None:
        found = self._news.get(key)
        if found is None:
            return None
        left = self._told_at.get(key, -self._pace) + self._pace - self._monotonic()
        if left > _SOON:
            return Result(left)
        gang, news = found
        verdict = news if isinstance(news, Verdict) else refused_verdict(*news, self._explain)
        self._told_at[key] = self._monotonic()
        if not _is_lone(key):
            await self._tell_gang(key, verdict)
        if verdict.placed:
            self._news.pop(key, None)
            self._told_at.pop(key, None)
            return None
        waiting = self._waiting(gang, booked=verdict.reason == TERMINATING)
        speaks = len(waiting) <= _FEW
        told = [await self._tell_pod(pod, verdict, speaks=speaks) for pod in waiting]
        if _is_lone(key) and not told:
            self._news.pop(key, None)
            self._told_at.pop(key, None)
        return None if all(told) else Result(self._pace)

    async def _tell_gang(self, key: Key, verdict: Verdict) -> None:
        gang = self._gangs.get(key)
        if gang is None:
            self._news.pop(key, None)
            self._told_at.pop(key, None)
            return
        resource, namespace = subject_of(gang)
        about = Reference.to(resource, key[1], namespace, gang.metadata.uid)
        if verdict.placed:
            self._events.event(about, "Scheduled", verdict.message)
        new = told_by(gang, verdict)
        if new is None:
            return
        old = next((each for each in gang.status.conditions if each.type == new.type), None)
        if not verdict.placed and (old is None or old.message != new.message):
            self._events.event(about, "FailedScheduling", verdict.message, warning=True)
        score = self._score("/".join(key)) if resource is GANGS else None
        unchanged = (old is None and verdict.placed) or _says(old, new)
        if unchanged and score == gang.status.placement_score:
            return
        # What was applied before and is not applied again would go.
        status: JsonObject = {} if score is None else {"placementScore": score}
        if old is not None or not verdict.placed:
            status["conditions"] = [wire(new, old, self._now())]
        await self._apply_status(resource, gang.metadata.uid, (namespace, key[1]), status)

    def _score(self, gang: str) -> float | None:
        """How good the place of a gang is, as far as it has one."""
        cluster = self._world.cluster
        standing = cluster.standing.get(gang)
        if standing is None:
            return None
        booked = cluster.snapshot.bookings
        bookings = [booked[pod] for pod in standing.pods if pod in booked]
        return placement_score(cluster.snapshot, bookings, self._levels)

    async def _tell_pod(self, pod: Pod, verdict: Verdict, *, speaks: bool) -> bool:
        """Whether a pod says what it should; not if it has changed since the cache saw it. It may
        have been bound, and is not to say afterwards that it was not. The first time it gets an
        event; later ones only if it `speaks`: in a large gang the gang's own event is enough."""
        new = Condition("PodScheduled", "False", verdict.pod_reason, verdict.message)
        old = next((each for each in pod.status.conditions if each.type == new.type), None)
        if _says(old, new):
            return True
        key = pod.metadata.namespace, pod.metadata.name
        if speaks or old is None or old.status != new.status:
            about = Reference.to(PODS, key[1], key[0], pod.metadata.uid)
            self._events.event(about, "FailedScheduling", verdict.message, warning=True)
        condition = wire(new, old, self._now()) | {"lastProbeTime": None}
        status: JsonObject = {"conditions": [condition]}
        try:
            await self._apply_status(
                PODS, pod.metadata.uid, key, status, pod.metadata.resource_version
            )
        except Conflict:
            return False
        return True

    async def _apply_status(
        self, resource: Resource[T], uid: str, key: Key, status: JsonObject, version: str = ""
    ) -> None:
        metadata = {"uid": uid, "resourceVersion": version} if version else {"uid": uid}
        body = {"metadata": metadata, "status": status}
        try:
            await self._client.apply(resource, key[1], body, key[0], subresource="status")
        except NotFound:
            return  # it went; nobody needs to know any more

    def _waiting(self, gang: Gang, *, booked: bool) -> list[Pod]:
        """The pods of a gang that have no node, nor will have one in a moment; unless those that
        are `booked` are meant, too."""
        keys = [member.pod for group in gang.groups for member in group.members]
        if _is_lone(_key(gang.name)):
            keys = [pod_of_lone(gang.name)]
        bookings = self._world.cluster.snapshot.bookings
        pods = [self._world.find(key) for key in keys if booked or key not in bookings]
        return [pod for pod in pods if pod is not None and is_placeable(pod)]

    def _announce(self, placement: Placement) -> None:
        """Records on each pod where it was placed, as `kubectl describe pod` shows it."""
        for booking in placement.bookings:
            pod = self._world.find(booking.pod)
            if pod is not None:
                meta = pod.metadata
                about = Reference.to(PODS, meta.name, meta.namespace, meta.uid)
                node = self._world.cluster.snapshot.names[booking.row]
                message = f"Successfully assigned {booking.pod} to {node}"
                self._events.event(about, "Scheduled", message)


def _key(gang: str) -> Key:
    namespace, _, name = gang.rpartition("/")
    return namespace, name


def _is_lone(key: Key) -> bool:
    return is_lone("/".join(key))


def _says(old: Condition | None, new: Condition) -> bool:
    if old is None:
        return False
    return (old.status, old.reason, old.message) == (new.status, new.reason, new.message)
