"""The controller of cliques. A key is a clique.

A round looks at the clique's own pods and, until all of those have been released, at the pods of
the cliques it starts after. Rounds of a big clique are some time apart, so that looking costs the
same small share of a processor however many pods come up at once; what people ask for is done at
once. Pods come first: what there is to write of the status is written after them, and no more often
than its pace allows.
"""

from collections.abc import Awaitable
from functools import partial

from msgspec.structs import replace

from kilonova.api.grove import PodClique, PodCliqueSet, PodCliqueStatus, names
from kilonova.api.podgang import PodGang
from kilonova.kube import (
    ApiStatusError,
    Backoff,
    Controller,
    Key,
    NotFound,
    Result,
)
from kilonova.kube.batches import Trust
from kilonova.kube.echo import Echo
from kilonova.workloads.caches import BY_BASE, BY_CLIQUE, BY_REPLICA, scaled_parts
from kilonova.workloads.cliques.concerns import Concerns
from kilonova.workloads.cliques.desire import Plan, Seen, desire
from kilonova.workloads.cliques.hands import Hands
from kilonova.workloads.cliques.release import has_started, is_left_behind, is_scaled_in
from kilonova.workloads.cliques.retries import Retries
from kilonova.workloads.cliques.roster import is_own
from kilonova.workloads.cliques.status import failed_status, has_lost_all, is_pressing
from kilonova.workloads.keys import replica_of, set_of
from kilonova.workloads.limits import LIMIT_EXCEEDED, MOST_PODS, OVER_LIMIT, Excess, scale_excess
from kilonova.workloads.means import Means
from kilonova.workloads.pace import Pace
from kilonova.workloads.pods import is_ending
from kilonova.workloads.resources import CLIQUES
from kilonova.workloads.statuses import status_patch
from kilonova.workloads.templates.lookup import member_named
from kilonova.workloads.templates.pods import pod_object

_NAME = "cliques"
_WORKERS = 64
_RETRIES = Backoff(0.005, 10.0)
"""A quota that refuses pods is not ours to watch: that there is more is found by trying again."""
_AGAIN = 10.0
"""Seconds: what makes a set too big may be scaled in elsewhere."""
_LOOK_SECONDS = 0.0001
"""Between two rounds, for each pod of a clique; looking at one takes about a tenth of it."""
_SHORTEST_PAUSE = 0.005
"""A clique that would wait for less need not wait."""


def build_clique_controller(means: Means) -> Controller:
    """Keeps the pods of every clique; the caches must run beside it."""
    rounds = _Rounds(means)
    watches = Concerns(means.caches).watches()
    controller = Controller(
        _NAME,
        rounds.reconcile,
        watches,
        workers=_WORKERS,
        backoff=_RETRIES,
        instruments=means.instruments,
    )
    means.rush.listen(_NAME, controller.queue.add)
    return controller


class _Rounds:
    def __init__(self, means: Means) -> None:
        caches, monotonic = means.caches, means.monotonic
        self._client = means.client
        self._caches = caches
        self._settings = means.settings
        self._now = means.now
        self._hands = Hands(means.client, means.recorder, Echo(caches.pods), Trust(monotonic))
        self._echo = Echo(caches.cliques)
        self._rush = means.rush
        self._pace = Pace(means.settings.status_pace, monotonic, means.rush)
        self._retries = Retries(monotonic)
        self._monotonic = monotonic
        self._looked: dict[Key, tuple[int, float]] = {}

    async def reconcile(self, key: Key) -> Result | None:
        """One round of a clique."""
        wait = self._wait_to_look(key)
        if wait > 0:
            return Result(wait)
        try:
            return await self._round(key)
        except Exception:
            # Its next try has a delay of its own, which a look in vain would cut short.
            self._looked.pop(key, None)
            raise

    async def _round(self, key: Key) -> Result | None:
        seen = self._observe(key)
        if seen is None:
            return None
        if seen.clique.metadata.deletion_timestamp is not None:
            await self._take_leave(seen)
            return None
        plan = desire(seen, self._now())
        failure = None
        if not plan.is_idle:
            with self._rush.act():
                failure = await self._act(seen, plan)
            # One status for what was done and what it has led to by now.
            seen = self._observe(key)
            if seen is None:
                return None
            plan = desire(seen, self._now())
        status = plan.status
        if failure is not None:
            status = failed_status(seen.clique, status, failure.message, self._now())
        if seen.excess is not None:
            told, now = str(seen.excess), self._now()
            status = failed_status(seen.clique, status, told, now, code=OVER_LIMIT)
            self._report(seen.clique, status, seen.excess)
        pause = await self._tell(seen.clique, status)
        if failure is not None:
            raise failure
        waits = [each for each in (pause, plan.after, _AGAIN if seen.excess else None) if each]
        return Result(min(waits)) if waits else None

    def _wait_to_look(self, key: Key) -> float:
        """Seconds until a big clique may be looked at again; none if people have changed it."""
        clique, now = self._caches.cliques.store.get(key), self._monotonic()
        known, until = self._looked.pop(key, (0, now))
        if clique is None:
            return 0.0
        generation = clique.metadata.generation
        if known == generation and until > now:
            self._looked[key] = (known, until)
            return until - now
        pods = self._caches.pods.store.count(BY_CLIQUE, key)
        pause = min(_LOOK_SECONDS * pods, self._settings.status_pace)
        if pause >= _SHORTEST_PAUSE:
            self._looked[key] = (generation, now + pause)
        return 0.0

    def _observe(self, key: Key) -> Seen | None:
        clique = self._caches.cliques.store.get(key)
        if clique is None:
            self._retries.forget(key)
            return None
        set_key = set_of(clique.metadata)
        set_ = None if set_key is None else self._caches.sets.store.get(set_key)
        pods = self._caches.pods.store.find(BY_CLIQUE, key)
        return Seen(
            clique,
            set_,
            pods,
            self._gang(clique, names.POD_GANG),
            self._gang(clique, names.BASE_POD_GANG),
            self._retries.waits(clique, pods),
            partial(self._dependencies_ready, clique),
            partial(self._replica_is_of_one_version, clique),
            self._excess(clique, set_),
        )

    def _excess(self, clique: PodClique, set_: PodCliqueSet | None) -> Excess | None:
        """Why there may not be as many pods as a clique asks for."""
        if clique.spec.replicas > MOST_PODS:
            rule = f"must not be greater than {MOST_PODS}: lower it"
            return Excess("spec.replicas", clique.spec.replicas, rule)
        if set_ is None:
            return None
        key = set_.metadata.namespace, set_.metadata.name
        return scale_excess(set_, (clique,), partial(scaled_parts, self._caches, key))

    def _gang(self, clique: PodClique, label: str) -> PodGang | None:
        name = clique.metadata.labels.get(label)
        return self._caches.gangs.store.get((clique.metadata.namespace, name)) if name else None

    def _dependencies_ready(self, clique: PodClique) -> bool:
        return all(self._has_started(clique, name) for name in clique.spec.starts_after)

    def _has_started(self, clique: PodClique, name: str) -> bool:
        key = clique.metadata.namespace, name
        dependency = self._caches.cliques.store.get(key)
        if dependency is None:
            return self._is_scaled_in(clique, name)
        return has_started(dependency, self._caches.pods.store.find(BY_CLIQUE, key))

    def _is_scaled_in(self, clique: PodClique, name: str) -> bool:
        replica, groups = replica_of(clique.metadata), self._caches.groups.store
        if replica is None:
            return False
        set_ = self._caches.sets.store.get((replica.namespace, replica.set_name))
        if set_ is None:
            return False
        member = member_named(set_.spec.template, replica.set_name, replica.index, name)
        return member is not None and is_scaled_in(
            member, groups.get((replica.namespace, member.group_name))
        )

    def _replica_is_of_one_version(self, clique: PodClique) -> bool:
        store, find = self._caches.cliques.store, self._caches.pods.store.find
        revision = clique.metadata.labels.get(names.GENERATION_HASH, "")
        return not any(
            is_left_behind(each, find(BY_CLIQUE, store.key_of(each)), revision)
            for each in store.find(BY_REPLICA, replica_of(clique.metadata))
        )

    async def _act(self, seen: Seen, plan: Plan) -> ApiStatusError | None:
        """Do what is planned, as far as can be; the first refusal."""
        clique = seen.clique
        # First told, then done: whoever goes on after a crash knows which pods were selected.
        progress = plan.status.update_progress
        await self._write(clique, replace(clique.status, update_progress=progress))
        bodies = [
            pod_object(
                clique,
                seen.set_,
                pod.index,
                pod.name,
                gated=pod.gated,
                released=pod.released,
                settings=self._settings,
            )
            for pod in plan.create
        ]
        results = [
            await _outcome(self._hands.let_go(plan.ungate, plan.release)),
            await _outcome(self._hands.delete(clique, plan.delete)),
            await _outcome(self._hands.create(clique, bodies)),
        ]
        return next((each for each in results if each is not None), None)

    async def _tell(self, clique: PodClique, status: PodCliqueStatus) -> float | None:
        """Write a status; or say after how many seconds it may be written."""
        known = clique.metadata
        if status == clique.status:
            return None
        gang = known.namespace, known.labels.get(names.POD_GANG, "")
        others_wait = self._caches.cliques.store.count(BY_BASE, gang) > 0
        pressing = is_pressing(clique, status, others_wait=others_wait)
        # Of what has just been made, pods are awaited, not news.
        gives_way = clique.status.observed_generation is None and not others_wait
        wait = self._pace.wait(known.uid, pressing=pressing, gives_way=gives_way)
        if wait > 0:
            if gives_way:
                self._rush.await_end(_NAME, (known.namespace, known.name))
            return wait
        self._pace.wrote(known.uid)
        await self._write(clique, status)
        if has_lost_all(clique, status):
            message = "No pod of the clique has a node any more"
            self._hands.tell(clique, "AllScheduledReplicasLost", message, bad=True)
        return None

    def _report(self, clique: PodClique, status: PodCliqueStatus, excess: Excess) -> None:
        """Tell once that a clique asks for too much."""
        if status.last_errors != clique.status.last_errors:
            self._hands.tell(clique, LIMIT_EXCEEDED, str(excess), bad=True)

    async def _write(self, clique: PodClique, status: PodCliqueStatus) -> None:
        known = clique.metadata
        patch = status_patch(clique.status, status)
        if patch is None:
            return
        body = {"metadata": {"uid": known.uid}, **patch}
        try:
            written = await self._client.patch(
                CLIQUES, known.name, body, known.namespace, subresource="status"
            )
        except NotFound:
            return
        await self._echo.of_version(written.metadata.resource_version)

    async def _take_leave(self, seen: Seen) -> None:
        """Delete the pods of a clique that goes, and let it go."""
        clique, known = seen.clique, seen.clique.metadata
        pods = [pod for pod in seen.pods if is_own(clique, pod) and not is_ending(pod)]
        await self._hands.delete(clique, pods)
        if names.CLIQUE_FINALIZER not in known.finalizers:
            return
        left = [each for each in known.finalizers if each != names.CLIQUE_FINALIZER]
        fields = {"finalizers": left, "resourceVersion": known.resource_version}
        try:
            written = await self._client.patch(
                CLIQUES, known.name, {"metadata": fields}, known.namespace
            )
        except NotFound:
            return
        if written.metadata.finalizers:
            await self._echo.of_version(written.metadata.resource_version)
        else:
            # Its pods tell of their end meanwhile: no round is to let it go again.
            await self._echo.of_departure((known.namespace, known.name), known.uid)


async def _outcome(act: Awaitable[None]) -> ApiStatusError | None:
    try:
        await act
    except ApiStatusError as error:
        return error
    return None
