"""The DaemonSet controller."""

from collections.abc import Iterable, Sequence

from kilonova.api.json import JsonObject
from kilonova.kube import Controller, Key, Result, Watch
from kilonova.kube.controllers.expectations import Expectations
from kilonova.local.controllers.apps.controller_refs import (
    ControllerRefManager,
    match_controlled_objects,
)
from kilonova.local.controllers.apps.daemonset.backoff import FailedPodBackoff
from kilonova.local.controllers.apps.daemonset.desire import (
    GENERATION_ANNOTATION,
    REVISION_HASH,
    TEMPLATE_GENERATION,
    DaemonSetPlan,
    ObservedDaemonSet,
    compute_status,
    plan_node_pods,
    plan_rolling_update,
    pods_by_node,
)
from kilonova.local.controllers.apps.daemonset.eligibility import (
    NodeEligibility,
    add_daemon_tolerations,
    pin_to_node,
    target_node,
)
from kilonova.local.controllers.apps.objects import (
    DAEMON_SETS,
    REVISIONS,
    ControllerRevision,
    DaemonSet,
)
from kilonova.local.controllers.apps.pod_control import (
    BURST_REPLICAS,
    PodControl,
    build_pod_from_template,
)
from kilonova.local.controllers.apps.pod_state import seconds_to_next_available
from kilonova.local.controllers.apps.revisions import OwnedRevisions, RevisionHistory
from kilonova.local.controllers.apps.selector_index import (
    BY_SELECTOR,
    find_selecting_keys,
    first_match_label,
    index_by_selector,
)
from kilonova.local.controllers.apps.status_writer import WorkloadStatusWriter
from kilonova.local.controllers.apps.templates import add_labels
from kilonova.local.controllers.context import ControllerContext
from kilonova.local.controllers.shared.indexes import (
    BY_CONTROLLER,
    orphan_index_key,
    pods_by_controller,
)
from kilonova.local.objects.core import NODES, PODS, Node, Pod
from kilonova.local.objects.indexes import add_index_once

NAME = "daemonset-controller"
_WORKERS = 2


class DaemonSetController:
    """Watches DaemonSets, their pods, and names, labels and taints of nodes."""

    def __init__(self, context: ControllerContext) -> None:
        client = context.client_for(NAME)
        self._clock = context.clock
        self._can_run_pod = context.can_run_pod
        self._events = context.recorder(NAME)
        self._sets = context.informer(DAEMON_SETS)
        self._pods = pods_by_controller(context)
        self._nodes = context.informer(NODES)
        self._revisions = context.informer(REVISIONS)
        add_index_once(self._sets.store, BY_SELECTOR, index_by_selector)
        self._pod_writes = Expectations(self._pods)
        self._claimer = ControllerRefManager(client, DAEMON_SETS)
        self._history = RevisionHistory(client, DAEMON_SETS, self._revisions, REVISION_HASH)
        self._pod_control = PodControl(client, self._events, DAEMON_SETS, self._pod_writes)
        self._status_writer = WorkloadStatusWriter(client, DAEMON_SETS, Expectations(self._sets))
        self._failed_pod_backoff = FailedPodBackoff(context.clock.monotonic)
        watches = [
            Watch(self._sets),
            Watch(self._pods, self._map_pod),
            # Watched only for cache sync: a change of these enqueues no DaemonSet by itself.
            Watch(self._revisions, lambda _: ()),
            Watch(self._nodes, lambda _: ()),
        ]
        self._controller = Controller("daemonsets", self._reconcile, watches, workers=_WORKERS)
        self._nodes.store.add_event_handler(self._handle_node_change)

    @property
    def controller(self) -> Controller:
        return self._controller

    def _map_pod(self, pod: Pod) -> Iterable[Key]:
        owner = pod.metadata.controller
        if owner is None:
            return find_selecting_keys(self._sets.store, pod.metadata)
        return [(pod.metadata.namespace, owner.name)] if owner.kind == DAEMON_SETS.kind else []

    def _handle_node_change(self, old: Node | None, new: Node | None) -> None:
        """Heartbeats of a node are ignored; its creation, labels and taints concern all
        DaemonSets."""
        if old is not None and new is not None:
            same_labels = old.metadata.labels == new.metadata.labels
            if same_labels and old.spec.taints == new.spec.taints:
                return
        keys = self._sets.store.keys()
        for key in keys:
            self._controller.queue.add(key)

    async def _reconcile(self, key: Key) -> Result | None:
        daemon_set = self._sets.store.get(key)
        if daemon_set is None or daemon_set.metadata.deletion_timestamp is not None:
            return None
        collisions = daemon_set.status.collision_count or 0
        revisions = await self._history.sync_revisions(
            daemon_set, daemon_set.spec.template, collisions
        )
        hash_ = revisions.current.metadata.labels.get(REVISION_HASH, "")
        seen = await self._observe(daemon_set, hash_)
        plan, delay = self._failed_pod_backoff.hold_back_failed_pods(
            daemon_set, plan_node_pods(seen)
        )
        if plan.is_empty and daemon_set.spec.update_strategy.type == "RollingUpdate":
            plan = plan_rolling_update(seen)
        try:
            if not plan.is_empty:
                await self._apply(seen, plan)
                seen = await self._observe(daemon_set, hash_)
        finally:
            await self._status_writer.write(daemon_set, compute_status(seen, revisions.collisions))
        await self._history.delete_revisions(_select_expired_revisions(seen, revisions))
        return self._requeue_result(seen, delay)

    async def _observe(self, daemon_set: DaemonSet, hash_: str) -> ObservedDaemonSet:
        metadata, store = daemon_set.metadata, self._pods.store
        owned = store.by_index(BY_CONTROLLER, metadata.uid)
        free = store.by_index(
            BY_CONTROLLER, orphan_index_key(metadata.namespace, first_match_label(daemon_set))
        )
        matches = daemon_set.selector.matches
        found = match_controlled_objects(
            metadata, [*owned, *free], lambda pod: matches(pod.metadata.labels)
        )
        pods = await self._claimer.adopt_and_release(metadata, found, PODS, self._pod_writes)
        eligibility = NodeEligibility(daemon_set.spec.template, self._can_run_pod)
        decisions = {
            node.metadata.name: eligibility.evaluate(node) for node in self._nodes.store.objects()
        }
        return ObservedDaemonSet(
            daemon_set, decisions, pods_by_node(pods), hash_, self._clock.now()
        )

    async def _apply(self, observed: ObservedDaemonSet, plan: DaemonSetPlan) -> None:
        metadata, about = (
            observed.daemon_set.metadata,
            self._pod_control.object_reference(observed.daemon_set.metadata),
        )
        for pod in plan.failed:
            what = f"Found failed daemon pod {metadata.namespace}/{pod.metadata.name}"
            message = f"{what} on node {target_node(pod)}, will try to kill it"
            self._events.event(about, "FailedDaemonPod", message, warning=True)
        for pod in plan.succeeded:
            what = f"Found succeeded daemon pod {metadata.namespace}/{pod.metadata.name}"
            message = f"{what} on node {target_node(pod)}, will try to delete it"
            self._events.event(about, "SucceededDaemonPod", message)
        bodies = [_build_daemon_pod(observed, node) for node in plan.create[:BURST_REPLICAS]]
        await self._pod_control.create(metadata, bodies)
        to_delete = [*plan.failed, *plan.succeeded, *plan.delete]
        await self._pod_control.delete(metadata, to_delete[:BURST_REPLICAS])

    def _requeue_result(self, observed: ObservedDaemonSet, delay: float | None) -> Result | None:
        minimum = observed.daemon_set.spec.min_ready_seconds
        pods = (pod for pods in observed.pods.values() for pod in pods)
        waits = [delay, seconds_to_next_available(pods, minimum, self._clock.now())]
        soonest = min((wait for wait in waits if wait is not None), default=None)
        return None if soonest is None else Result(soonest)


def _build_daemon_pod(observed: ObservedDaemonSet, node: str) -> JsonObject:
    daemon_set = observed.daemon_set
    labels = {REVISION_HASH: observed.hash}
    if generation := daemon_set.metadata.annotations.get(GENERATION_ANNOTATION):
        labels[TEMPLATE_GENERATION] = generation
    template = add_labels(daemon_set.spec.template, labels)
    body = build_pod_from_template(template, DAEMON_SETS, daemon_set.metadata)
    body["spec"] = pin_to_node(add_daemon_tolerations(body["spec"]), node)
    return body


def _select_expired_revisions(
    observed: ObservedDaemonSet, revisions: OwnedRevisions
) -> Sequence[ControllerRevision]:
    """The oldest revisions beyond the limit that no pod uses any more."""
    live = {
        pod.metadata.labels.get(REVISION_HASH) for pods in observed.pods.values() for pod in pods
    }
    past = [
        each for each in revisions.others if each.metadata.labels.get(REVISION_HASH) not in live
    ]
    surplus = len(revisions.others) - observed.daemon_set.spec.revision_history_limit
    return past[: max(surplus, 0)]
