"""The StatefulSet controller."""

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
from kilonova.kube.controllers.expectations import Expectations
from kilonova.kube.controllers.slow_start import slow_start
from kilonova.kube.events import ObjectReference
from kilonova.local.controllers.apps.controller_refs import (
    ControllerRefManager,
    match_controlled_objects,
)
from kilonova.local.controllers.apps.objects import (
    REVISIONS,
    STATEFUL_SETS,
    VOLUME_CLAIMS,
    ControllerRevision,
    StatefulSet,
)
from kilonova.local.controllers.apps.pod_state import seconds_to_next_available
from kilonova.local.controllers.apps.revisions import (
    OwnedRevisions,
    RevisionHistory,
    extract_template,
)
from kilonova.local.controllers.apps.selector_index import (
    BY_SELECTOR,
    find_selecting_keys,
    first_match_label,
    index_by_selector,
)
from kilonova.local.controllers.apps.statefulset.desire import (
    CreatePod,
    DeletePod,
    PodAction,
    RestoreIdentity,
    RevisionNames,
    StatefulSetPlan,
    SyncClaims,
    desire,
)
from kilonova.local.controllers.apps.statefulset.identity import (
    build_stateful_pod,
    identity_labels,
    parse_ordinal,
    revision_of,
)
from kilonova.local.controllers.apps.statefulset.volume_claims import (
    ClaimConflict,
    VolumeClaimControl,
)
from kilonova.local.controllers.apps.status_writer import WorkloadStatusWriter
from kilonova.local.controllers.context import ControllerContext
from kilonova.local.controllers.shared.indexes import (
    BY_CONTROLLER,
    orphan_index_key,
    pods_by_controller,
)
from kilonova.local.objects.core import PODS, Pod
from kilonova.local.objects.indexes import add_index_once

NAME = "statefulset-controller"
REVISION_HASH_LABEL = "controller.kubernetes.io/hash"
_WORKERS = 5


class StatefulSetController:
    """Watches StatefulSets and their pods."""

    def __init__(self, context: ControllerContext) -> None:
        client = self._client = context.client_for(NAME)
        self._clock = context.clock
        self._events = context.recorder(NAME)
        self._sets = context.informer(STATEFUL_SETS)
        self._pods = pods_by_controller(context)
        add_index_once(self._sets.store, BY_SELECTOR, index_by_selector)
        self._revisions, self._claims = context.informer(REVISIONS), context.informer(VOLUME_CLAIMS)
        self._pod_writes = Expectations(self._pods)
        self._claimer = ControllerRefManager(client, STATEFUL_SETS)
        self._history = RevisionHistory(client, STATEFUL_SETS, self._revisions, REVISION_HASH_LABEL)
        self._claim_control = VolumeClaimControl(
            client, self._events, self._claims, Expectations(self._claims)
        )
        self._status_writer = WorkloadStatusWriter(client, STATEFUL_SETS, Expectations(self._sets))

    def controller(self) -> Controller:
        watches = [
            Watch(self._sets),
            Watch(self._pods, self._map_pod),
            # Watched only for cache sync: a change of these enqueues no StatefulSet by itself.
            Watch(self._revisions, lambda _: ()),
            Watch(self._claims, lambda _: ()),
        ]
        return Controller("statefulsets", self._reconcile, watches, workers=_WORKERS)

    def _map_pod(self, pod: Pod) -> Iterable[Key]:
        owner = pod.metadata.controller
        if owner is None:
            return find_selecting_keys(self._sets.store, pod.metadata)
        return [(pod.metadata.namespace, owner.name)] if owner.kind == STATEFUL_SETS.kind else []

    async def _reconcile(self, key: Key) -> Result | None:
        stateful_set = self._sets.store.get(key)
        if stateful_set is None:
            return None
        status = stateful_set.status
        revisions = await self._history.sync_revisions(
            stateful_set, stateful_set.spec.template, status.collision_count or 0
        )
        pods = await self._claim_pods(stateful_set)
        current = _find_current_revision(stateful_set, revisions)
        names = RevisionNames(
            current.metadata.name, revisions.current.metadata.name, revisions.collisions
        )
        plan = desire(stateful_set, pods, names, self._clock.now())
        try:
            await self._apply(stateful_set, plan, current, revisions.current)
        finally:
            await self._status_writer.write(stateful_set, plan.status)
        await self._history.delete_revisions(
            _select_expired_revisions(stateful_set, pods, current, revisions)
        )
        minimum = stateful_set.spec.min_ready_seconds
        after = seconds_to_next_available(pods, minimum, self._clock.now())
        return None if after is None else Result(after)

    async def _claim_pods(self, stateful_set: StatefulSet) -> list[Pod]:
        matching, store = stateful_set.metadata, self._pods.store
        owned = store.by_index(BY_CONTROLLER, matching.uid)
        free = store.by_index(
            BY_CONTROLLER, orphan_index_key(matching.namespace, first_match_label(stateful_set))
        )
        matches = stateful_set.selector.matches

        def is_member(pod: Pod) -> bool:
            named = parse_ordinal(stateful_set, pod.metadata.name) is not None
            return named and matches(pod.metadata.labels)

        found = match_controlled_objects(matching, [*owned, *free], is_member)
        return await self._claimer.adopt_and_release(matching, found, PODS, self._pod_writes)

    async def _apply(
        self,
        stateful_set: StatefulSet,
        plan: StatefulSetPlan,
        current: ControllerRevision,
        update: ControllerRevision,
    ) -> None:
        calls = [
            partial(self._apply_action, stateful_set, act, current, update) for act in plan.actions
        ]
        if stateful_set.spec.pod_management_policy == "Parallel":
            await slow_start(calls)
        else:
            for call in calls:
                await call()

    async def _apply_action(
        self,
        stateful_set: StatefulSet,
        action: PodAction,
        current: ControllerRevision,
        update: ControllerRevision,
    ) -> None:
        if isinstance(action, CreatePod):
            revision = update if action.updated else current
            template = extract_template(revision)
            name = revision.metadata.name
            body = build_stateful_pod(stateful_set, template, name, action.ordinal)
            await self._create_pod(stateful_set, body, action.ordinal)
        elif isinstance(action, DeletePod):
            await self._delete_pod(stateful_set, action.pod)
        elif isinstance(action, RestoreIdentity):
            await self._restore_identity(stateful_set, action)
        else:
            await self._sync_claims(stateful_set, action)

    async def _sync_claims(self, stateful_set: StatefulSet, action: SyncClaims) -> None:
        if action.create_missing:
            await self._claim_control.create_missing(stateful_set, action.ordinal)
        await self._claim_control.set_owners(
            stateful_set, action.ordinal, action.pod.metadata, condemned=action.condemned
        )

    async def _create_pod(self, stateful_set: StatefulSet, body: JsonObject, ordinal: int) -> None:
        name = body["metadata"]["name"]
        if not self._claim_control.can_use_claims(stateful_set, ordinal):
            raise ClaimConflict(f"a claim of {name} belongs to a previous pod of that name")
        try:
            await self._claim_control.create_missing(stateful_set, ordinal)
            pod = await self._client.create(PODS, body, stateful_set.metadata.namespace)
        except AlreadyExists:
            raise
        except KubeError as error:
            self._record_event(stateful_set, "Create", name, error)
            raise
        self._record_event(stateful_set, "Create", name)
        await self._pod_writes.wait_for_version(pod.metadata.resource_version)
        await self._claim_control.set_owners(stateful_set, ordinal, pod.metadata, condemned=False)

    async def _delete_pod(self, stateful_set: StatefulSet, pod: Pod) -> None:
        matching = pod.metadata
        try:
            await self._client.delete(PODS, matching.name, matching.namespace, uid=matching.uid)
        except (NotFound, Conflict):
            pass  # deleted, or replaced by another pod of that name
        except ApiStatusError as error:
            self._record_event(stateful_set, "Delete", matching.name, error)
            raise
        self._record_event(stateful_set, "Delete", matching.name)
        await self._pod_writes.wait_for_deletion((matching.namespace, matching.name), matching.uid)

    async def _restore_identity(self, stateful_set: StatefulSet, action: RestoreIdentity) -> None:
        matching = action.pod.metadata
        labels = identity_labels(matching.name, action.ordinal)
        body = {"metadata": {"uid": matching.uid, "labels": labels}}
        try:
            changed = await self._client.patch(PODS, matching.name, body, matching.namespace)
        except ApiStatusError as error:
            self._record_event(stateful_set, "Update", matching.name, error)
            raise
        self._record_event(stateful_set, "Update", matching.name)
        await self._pod_writes.wait_for_version(changed.metadata.resource_version)

    def _record_event(
        self, stateful_set: StatefulSet, verb: str, pod: str, error: KubeError | None = None
    ) -> None:
        matching = stateful_set.metadata
        about = ObjectReference.to(STATEFUL_SETS, matching.name, matching.namespace, matching.uid)
        what = f"{verb} Pod {pod} in StatefulSet {matching.name}"
        if error is None:
            self._events.event(about, f"Successful{verb}", f"{what} successful")
        else:
            cause = error.message if isinstance(error, ApiStatusError) else str(error)
            message = f"{what} failed error: {cause}"
            self._events.event(about, f"Failed{verb}", message, warning=True)


def _find_current_revision(
    stateful_set: StatefulSet, revisions: OwnedRevisions
) -> ControllerRevision:
    """The current revision of the pods; initially the only one."""
    name = stateful_set.status.current_revision
    matching = (each for each in revisions.others if each.metadata.name == name)
    return next(matching, revisions.current)


def _select_expired_revisions(
    stateful_set: StatefulSet,
    pods: Sequence[Pod],
    current: ControllerRevision,
    revisions: OwnedRevisions,
) -> Sequence[ControllerRevision]:
    """The oldest revisions beyond the limit that no pod uses any more."""
    live = {current.metadata.name, *map(revision_of, pods)}
    past = [each for each in revisions.others if each.metadata.name not in live]
    return past[: max(len(past) - stateful_set.spec.revision_history_limit, 0)]
