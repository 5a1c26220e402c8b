"""Carries out what a StatefulSet should do."""

from collections.abc import Iterable, Sequence
from functools import partial

from kilonova.api.json import JsonObject
from kilonova.kube import (
    AlreadyExists,
    ApiStatusError,
    Conflict,
    Controller,
    Key,
    KubeError,
    NotFound,
    Result,
    Watch,
)
from kilonova.kube.batches import slow_start
from kilonova.kube.echo import Echo
from kilonova.kube.events import Reference
from kilonova.local.controllers.apps.claims import Claimer, claim
from kilonova.local.controllers.apps.facts import next_availability
from kilonova.local.controllers.apps.objects import (
    CLAIMS,
    REVISIONS,
    STATEFUL_SETS,
    ControllerRevision,
    StatefulSet,
)
from kilonova.local.controllers.apps.revisions import History, Revisions, template_of
from kilonova.local.controllers.apps.selection import (
    BY_SELECTOR,
    asked_label,
    keys_of_selecting,
    selector_values,
)
from kilonova.local.controllers.apps.statefulset.claimwork import ClaimInTheWay, ClaimWork
from kilonova.local.controllers.apps.statefulset.desire import (
    Act,
    Make,
    Mend,
    Plan,
    Remove,
    RevisionNames,
    Supply,
    desire,
)
from kilonova.local.controllers.apps.statefulset.identity import (
    identity_labels,
    ordinal_of,
    revision_of,
    stateful_pod,
)
from kilonova.local.controllers.apps.statuses import StatusWriter
from kilonova.local.controllers.indexes import (
    BY_CONTROLLER,
    add_index_once,
    orphans,
    pods_by_controller,
)
from kilonova.local.controllers.objects import PODS, Pod
from kilonova.local.controllers.workshop import Workshop

NAME = "statefulset-controller"
HASH = "controller.kubernetes.io/hash"
_WORKERS = 5


class StatefulSetController:
    """Watches StatefulSets and their pods."""

    def __init__(self, workshop: Workshop) -> None:
        client = self._client = workshop.account(NAME)
        self._clock = workshop.clock
        self._events = workshop.recorder(NAME)
        self._sets = workshop.cache(STATEFUL_SETS)
        self._pods = pods_by_controller(workshop)
        add_index_once(self._sets.store, BY_SELECTOR, selector_values)
        self._revisions, self._claims = workshop.cache(REVISIONS), workshop.cache(CLAIMS)
        self._pod_echo = Echo(self._pods)
        self._claimer = Claimer(client, STATEFUL_SETS)
        self._history = History(client, STATEFUL_SETS, self._revisions, HASH)
        self._claim_work = ClaimWork(client, self._events, self._claims, Echo(self._claims))
        self._statuses = StatusWriter(client, STATEFUL_SETS, Echo(self._sets))

    def controller(self) -> Controller:
        watches = [
            Watch(self._sets),
            Watch(self._pods, self._keys_of_pod),
            # Only to be filled first: a change of these concerns no set by itself.
            Watch(self._revisions, lambda _: ()),
            Watch(self._claims, lambda _: ()),
        ]
        return Controller("statefulsets", self._reconcile, watches, workers=_WORKERS)

    def _keys_of_pod(self, pod: Pod) -> Iterable[Key]:
        owner = pod.metadata.controller
        if owner is None:
            return keys_of_selecting(self._sets.store, pod.metadata)
        return [(pod.metadata.namespace, owner.name)] if owner.kind == STATEFUL_SETS.kind else []

    async def _reconcile(self, key: Key) -> Result | None:
        stateful_set = self._sets.store.get(key)
        if stateful_set is None:
            return None
        status = stateful_set.status
        revisions = await self._history.keep(
            stateful_set, stateful_set.spec.template, status.collision_count or 0
        )
        pods = await self._claimed(stateful_set)
        current = _current(stateful_set, revisions)
        names = RevisionNames(
            current.metadata.name, revisions.present.metadata.name, revisions.collisions
        )
        plan = desire(stateful_set, pods, names, self._clock.now())
        try:
            await self._apply(stateful_set, plan, current, revisions.present)
        finally:
            await self._statuses.write(stateful_set, plan.status)
        await self._history.forget(_forgettable(stateful_set, pods, current, revisions))
        minimum = stateful_set.spec.min_ready_seconds
        after = next_availability(pods, minimum, self._clock.now())
        return None if after is None else Result(after)

    async def _claimed(self, stateful_set: StatefulSet) -> list[Pod]:
        known, store = stateful_set.metadata, self._pods.store
        owned = store.find(BY_CONTROLLER, known.uid)
        free = store.find(BY_CONTROLLER, orphans(known.namespace, asked_label(stateful_set)))
        matches = stateful_set.selector.matches

        def is_member(pod: Pod) -> bool:
            named = ordinal_of(stateful_set, pod.metadata.name) is not None
            return named and matches(pod.metadata.labels)

        found = claim(known, [*owned, *free], is_member)
        return await self._claimer.settle(known, found, PODS, self._pod_echo)

    async def _apply(
        self,
        stateful_set: StatefulSet,
        plan: Plan,
        current: ControllerRevision,
        update: ControllerRevision,
    ) -> None:
        calls = [partial(self._act, stateful_set, act, current, update) for act in plan.acts]
        if stateful_set.spec.pod_management_policy == "Parallel":
            await slow_start(calls)
        else:
            for call in calls:
                await call()

    async def _act(
        self,
        stateful_set: StatefulSet,
        act: Act,
        current: ControllerRevision,
        update: ControllerRevision,
    ) -> None:
        if isinstance(act, Make):
            revision = update if act.updated else current
            template = template_of(revision)
            name = revision.metadata.name
            body = stateful_pod(stateful_set, template, name, act.ordinal)
            await self._make(stateful_set, body, act.ordinal)
        elif isinstance(act, Remove):
            await self._remove(stateful_set, act.pod)
        elif isinstance(act, Mend):
            await self._mend(stateful_set, act)
        else:
            await self._supply(stateful_set, act)

    async def _supply(self, stateful_set: StatefulSet, act: Supply) -> None:
        if act.missing:
            await self._claim_work.create_missing(stateful_set, act.ordinal)
        await self._claim_work.set_owners(
            stateful_set, act.ordinal, act.pod.metadata, condemned=act.condemned
        )

    async def _make(self, stateful_set: StatefulSet, body: JsonObject, ordinal: int) -> None:
        name = body["metadata"]["name"]
        if not self._claim_work.may_use(stateful_set, ordinal):
            raise ClaimInTheWay(f"a claim of {name} belongs to an earlier pod of that name")
        try:
            await self._claim_work.create_missing(stateful_set, ordinal)
            pod = await self._client.create(PODS, body, stateful_set.metadata.namespace)
        except AlreadyExists:
            raise
        except KubeError as error:
            self._tell(stateful_set, "Create", name, error)
            raise
        self._tell(stateful_set, "Create", name)
        await self._pod_echo.of_version(pod.metadata.resource_version)
        await self._claim_work.set_owners(stateful_set, ordinal, pod.metadata, condemned=False)

    async def _remove(self, stateful_set: StatefulSet, pod: Pod) -> None:
        known = pod.metadata
        try:
            await self._client.delete(PODS, known.name, known.namespace, uid=known.uid)
        except (NotFound, Conflict):
            pass  # gone, or another pod of that name
        except ApiStatusError as error:
            self._tell(stateful_set, "Delete", known.name, error)
            raise
        self._tell(stateful_set, "Delete", known.name)
        await self._pod_echo.of_deletion((known.namespace, known.name), known.uid)

    async def _mend(self, stateful_set: StatefulSet, act: Mend) -> None:
        known = act.pod.metadata
        labels = identity_labels(known.name, act.ordinal)
        body = {"metadata": {"uid": known.uid, "labels": labels}}
        try:
            changed = await self._client.patch(PODS, known.name, body, known.namespace)
        except ApiStatusError as error:
            self._tell(stateful_set, "Update", known.name, error)
            raise
        self._tell(stateful_set, "Update", known.name)
        await self._pod_echo.of_version(changed.metadata.resource_version)

    def _tell(
        self, stateful_set: StatefulSet, verb: str, pod: str, error: KubeError | None = None
    ) -> None:
        known = stateful_set.metadata
        about = Reference.to(STATEFUL_SETS, known.name, known.namespace, known.uid)
        what = f"{verb} Pod {pod} in StatefulSet {known.name}"
        if error is None:
            self._events.event(about, f"Successful{verb}", f"{what} successful")
        else:
            why = error.message if isinstance(error, ApiStatusError) else str(error)
            message = f"{what} failed error: {why}"
            self._events.event(about, f"Failed{verb}", message, warning=True)


def _current(stateful_set: StatefulSet, revisions: Revisions) -> ControllerRevision:
    """The revision that pods have had so far; at first, the only one there is."""
    name = stateful_set.status.current_revision
    known = (each for each in revisions.others if each.metadata.name == name)
    return next(known, revisions.present)


def _forgettable(
    stateful_set: StatefulSet,
    pods: Sequence[Pod],
    current: ControllerRevision,
    revisions: Revisions,
) -> Sequence[ControllerRevision]:
    """The oldest revisions beyond the limit that no pod has any more."""
    live = {current.metadata.name, *map(revision_of, pods)}
    past = [each for each in revisions.others if each.metadata.name not in live]
    return past[: max(len(past) - stateful_set.spec.revision_history_limit, 0)]
