"""The controller of whole sets. A key is a set.

A round looks at every pod of the set, so rounds of a big set are some time apart: looking costs
the same small share of a processor however big the set is. What people ask for is done at once.
"""

from datetime import datetime

from msgspec.structs import replace

from kilonova.api.grove import (
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueSet,
    PodCliqueSetStatus,
    names,
)
from kilonova.api.grove.parts import LastError
from kilonova.api.json import JsonObject
from kilonova.api.podgang import PodGang
from kilonova.api.times import later, rfc3339
from kilonova.kube import (
    ApiStatusError,
    Backoff,
    Conflict,
    Controller,
    Key,
    NotFound,
    Result,
)
from kilonova.kube.echo import Echo
from kilonova.kube.events import Reference
from kilonova.workloads.caches import BY_CLIQUE, BY_SET
from kilonova.workloads.limits import LIMIT_EXCEEDED, OVER_LIMIT, Excess, set_excess
from kilonova.workloads.means import Means
from kilonova.workloads.pace import Pace
from kilonova.workloads.resources import SETS
from kilonova.workloads.sets.claims import SetClaims
from kilonova.workloads.sets.desire import is_under_way, surge, wanted_replicas
from kilonova.workloads.sets.history import History
from kilonova.workloads.sets.removal import Removal
from kilonova.workloads.sets.status import Facts, finished_at, set_status, stuck_at
from kilonova.workloads.sets.troubles import Troubles
from kilonova.workloads.sets.updates import next_progress, room_doubted_until
from kilonova.workloads.sets.view import ReplicaView, view_replicas
from kilonova.workloads.sets.watches import watches
from kilonova.workloads.statuses import status_patch
from kilonova.workloads.templates.topology import levels_of

_ORPHAN = "orphan"
"""The finalizer of a deletion that leaves behind what the object owns."""
_WORKERS = 8
_RETRIES = Backoff(0.005, 10.0)
"""What is in the way may be gone soon, without an event that tells of it."""
_LOOK_SECONDS = 0.0004
"""Between two looks at a set, for each of its replicas: about twenty times what a look takes."""
_CALM = 5
"""How many times longer that is while nothing is updated."""


def build_set_controller(means: Means) -> Controller:
    """Keeps every set; the caches must run beside it. Sets tell what `complaints` hold of them."""
    controller = Controller(
        "sets",
        _Rounds(means).reconcile,
        watches(means.caches),
        workers=_WORKERS,
        backoff=_RETRIES,
        instruments=means.instruments,
    )
    means.complaints.listen(controller.queue.add)
    return controller


class _Rounds:
    def __init__(self, means: Means) -> None:
        client, caches = means.client, means.caches
        self._client = client
        self._caches = caches
        self._complaints = means.complaints
        self._settings = means.settings
        self._recorder = means.recorder
        self._now = means.now
        self._monotonic = means.monotonic
        self._pace = Pace(means.settings.status_pace, means.monotonic)
        self._looked: dict[Key, tuple[int, float]] = {}
        self._echo = Echo(caches.sets)
        self._history = History(client, caches)
        self._removal = Removal(client, caches)
        self._claims = SetClaims(client, caches)

    async def reconcile(self, key: Key) -> Result | None:
        """One round of one set."""
        set_ = self._caches.sets.store.get(key)
        if set_ is None or set_.metadata.deletion_timestamp is not None:
            self._looked.pop(key, None)
            await self._let_go(key, set_)
            return None
        excess = set_excess(set_.spec)
        if excess is not None:
            self._looked.pop(key, None)
            await self._refuse(set_, excess)
            return None
        wait = self._wait_to_look(key, set_)
        if wait > 0:
            return Result(after=wait)
        try:
            if names.SET_FINALIZER not in set_.metadata.finalizers:
                set_ = await self._hold(set_)
            return await self._round(key, set_)
        except Exception:
            # Its next try has a delay of its own.
            self._looked.pop(key, None)
            raise

    async def _refuse(self, set_: PodCliqueSet, excess: Excess) -> None:
        """Leave all as it is, and say why: what was asked for before stays until it is mended."""
        time, known = rfc3339(self._now()), set_.status.last_errors
        error = LastError(OVER_LIMIT, str(excess), time)
        errors = Troubles(time).lasting(known, [error])
        if errors != known:
            self._recorder.event(_about(set_), LIMIT_EXCEEDED, str(excess), warning=True)
            await self._tell(set_, replace(set_.status, last_errors=errors))

    async def _round(self, key: Key, set_: PodCliqueSet) -> Result | None:
        now = self._now()
        troubles = Troubles(rfc3339(now))
        revision = await troubles.note("ERR_SYNC_REVISIONS", self._history.keep(set_))
        if revision is None:
            known = set_.status.last_errors
            await self._tell(set_, replace(set_.status, last_errors=troubles.lasting(known)))
            raise troubles.first_error()
        facts = self._look(key, set_, revision.hash, now)
        status = set_status(set_, facts, now)
        if _is_order(set_.status, status):
            # Others act on this: they must know before anything is taken away.
            known = set_.status.last_errors
            set_ = await self._tell(set_, replace(status, last_errors=known))
        wanted = set_.spec.replicas + surge(set_, facts.progress)
        await troubles.note("ERR_SYNC_REPLICAS", self._remove_beyond(set_, wanted))
        await troubles.note("ERR_SYNC_COMPUTE_DOMAINS", self._removal.release_going(key))
        await troubles.note("ERR_SYNC_RESOURCE_CLAIMS", self._claims.keep(set_))
        await troubles.note("ERR_SYNC_REVISIONS", self._history.prune(set_))
        errors = troubles.lasting(set_.status.last_errors, self._complaints.of(key))
        status = replace(set_status(set_, facts, now), last_errors=errors)
        wait = self._pace.wait(key) if status_patch(set_.status, status) else 0.0
        if not wait:
            set_ = await self._tell(set_, status)
        if troubles.found:
            raise troubles.first_error()
        return await self._come_back(set_, facts, now, wait)

    def _wait_to_look(self, key: Key, set_: PodCliqueSet) -> float:
        """Seconds until the set may be looked at again; none if people have changed it."""
        now, generation = self._monotonic(), set_.metadata.generation
        known, until = self._looked.get(key, (0, now))
        if known == generation and until > now:
            return until - now
        pause = min(_LOOK_SECONDS * wanted_replicas(set_), self._settings.status_pace)
        if not is_under_way(set_.status.update_progress):
            # Nobody waits for its turn: what is told of a big set is big, and can wait.
            pause *= _CALM
        self._looked[key] = (generation, now + pause)
        return 0.0

    def _look(self, key: Key, set_: PodCliqueSet, hash_: str, now: datetime) -> Facts:
        caches, uid = self._caches, set_.metadata.uid
        groups = [each for each in caches.groups.store.find(BY_SET, key) if _owner(each) == uid]
        owners = {uid, *(each.metadata.uid for each in groups)}
        cliques = [
            each for each in caches.cliques.store.find(BY_SET, key) if _owner(each) in owners
        ]
        pods, namespace = caches.pods.store, set_.metadata.namespace
        replicas = view_replicas(
            set_,
            hash_,
            cliques,
            groups,
            lambda each: pods.find(BY_CLIQUE, (namespace, each.metadata.name)),
        )
        asked = {
            index: replicas.get(index, ReplicaView(index)) for index in range(wanted_replicas(set_))
        }
        topologies = {each.metadata.name: each for each in caches.topologies.store.objects()}
        return Facts(
            hash=hash_,
            progress=next_progress(set_, hash_, asked, now),
            replicas=replicas,
            gangs=[each for each in caches.gangs.store.find(BY_SET, key) if _owner(each) == uid],
            levels=levels_of(set_, topologies, enabled=self._settings.topology),
        )

    async def _remove_beyond(self, set_: PodCliqueSet, wanted: int) -> None:
        about = _about(set_)
        try:
            removed = await self._removal.remove_beyond(set_, wanted)
        except ApiStatusError as error:
            reason = "PodCliqueSetReplicaDeleteFailed"
            self._recorder.event(about, reason, str(error), warning=True)
            raise
        if removed:
            message = f"Deleted replicas {', '.join(map(str, removed))}"
            self._recorder.event(about, "PodCliqueSetReplicaDeleteSuccessful", message)

    async def _come_back(
        self, set_: PodCliqueSet, facts: Facts, now: datetime, wait: float
    ) -> Result | None:
        """What remains to be done at a later time, if nothing happens before."""
        times = [wait] if wait else []
        for then in (
            stuck_at(set_, facts.progress),
            room_doubted_until(facts.progress, facts.replicas, now),
        ):
            if then is not None and then > now:
                times.append((then - now).total_seconds())
        ttl, finished = set_.spec.template.ttl_seconds_after_finished, finished_at(set_.status)
        if ttl is not None and finished is not None:
            left = (later(finished, ttl) - now).total_seconds()
            if left <= 0:
                await self._delete(set_)
                return None
            times.append(left)
        return Result(after=min(times)) if times else None

    async def _hold(self, set_: PodCliqueSet) -> PodCliqueSet:
        """Take part in the set's end."""
        return await self._finalize(set_, [*set_.metadata.finalizers, names.SET_FINALIZER])

    async def _let_go(self, key: Key, set_: PodCliqueSet | None) -> None:
        """Take away what the set had, unless it is to stay without the set, and let go of it.

        The garbage collector would do it too, in its own time: it may not know our kinds yet.
        """
        await self._removal.release_going(key)
        if set_ is None or names.SET_FINALIZER not in set_.metadata.finalizers:
            return
        if _ORPHAN not in set_.metadata.finalizers:
            await self._removal.remove_all(set_)
        rest = [each for each in set_.metadata.finalizers if each != names.SET_FINALIZER]
        try:
            await self._finalize(set_, rest)
        except NotFound:
            return

    async def _finalize(self, set_: PodCliqueSet, finalizers: list[str]) -> PodCliqueSet:
        known = set_.metadata
        metadata = {"finalizers": finalizers, "resourceVersion": known.resource_version}
        changed = await self._client.patch(
            SETS, known.name, {"metadata": metadata}, known.namespace
        )
        if finalizers:
            await self._echo.of_version(changed.metadata.resource_version)
        return changed

    async def _tell(self, set_: PodCliqueSet, status: PodCliqueSetStatus) -> PodCliqueSet:
        """Write what differs; the set as it is then."""
        patch = status_patch(set_.status, status)
        if patch is None:
            return set_
        known = set_.metadata
        body: JsonObject = {"metadata": {"uid": known.uid}, **patch}
        changed = await self._client.patch(
            SETS, known.name, body, known.namespace, subresource="status"
        )
        self._pace.wrote((known.namespace, known.name))
        await self._echo.of_version(changed.metadata.resource_version)
        return changed

    async def _delete(self, set_: PodCliqueSet) -> None:
        known = set_.metadata
        try:
            await self._client.delete(
                SETS, known.name, known.namespace, uid=known.uid, propagation="Background"
            )
        except (NotFound, Conflict):
            return


def _is_order(old: PodCliqueSetStatus, new: PodCliqueSetStatus) -> bool:
    """Whether a status tells the controllers of replicas and cliques to do something else."""
    return _orders(old) != _orders(new)


def _orders(status: PodCliqueSetStatus) -> tuple[str, bool, frozenset[int]]:
    progress = status.update_progress
    turns = progress.currently_updating if progress else ()
    return (
        status.current_generation_hash,
        is_under_way(progress),
        frozenset(each.replica_index for each in turns),
    )


def _about(set_: PodCliqueSet) -> Reference:
    known = set_.metadata
    return Reference.to(SETS, known.name, known.namespace, known.uid)


def _owner(child: PodClique | PodCliqueScalingGroup | PodGang) -> str | None:
    owner = child.metadata.controller
    return owner.uid if owner is not None else None
