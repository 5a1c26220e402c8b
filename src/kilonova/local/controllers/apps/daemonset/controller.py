"""Carries out what a DaemonSet should do."""

from collections.abc import Iterable, Sequence

from kilonova.api.json import JsonObject
from kilonova.kube import Controller, Key, Result, Watch
from kilonova.kube.echo import Echo
from kilonova.local.controllers.apps.claims import Claimer, claim
from kilonova.local.controllers.apps.daemonset.backoff import FailedPods
from kilonova.local.controllers.apps.daemonset.desire import (
    GENERATION_NOTE,
    REVISION_HASH,
    TEMPLATE_GENERATION,
    Observed,
    Plan,
    place,
    pods_by_node,
    status_of,
    update,
)
from kilonova.local.controllers.apps.daemonset.eligibility import (
    Eligibility,
    pinned_to,
    target_node,
    with_tolerations,
)
from kilonova.local.controllers.apps.facts import next_availability
from kilonova.local.controllers.apps.hands import BURST, Hands, pod_of_template
from kilonova.local.controllers.apps.objects import (
    DAEMON_SETS,
    REVISIONS,
    ControllerRevision,
    DaemonSet,
)
from kilonova.local.controllers.apps.revisions import History, Revisions
from kilonova.local.controllers.apps.selection import (
    BY_SELECTOR,
    asked_label,
    keys_of_selecting,
    selector_values,
)
from kilonova.local.controllers.apps.statuses import StatusWriter
from kilonova.local.controllers.apps.templates import with_labels
from kilonova.local.controllers.indexes import (
    BY_CONTROLLER,
    add_index_once,
    orphans,
    pods_by_controller,
)
from kilonova.local.controllers.objects import NODES, PODS, Node, Pod
from kilonova.local.controllers.workshop import Workshop

NAME = "daemonset-controller"
_WORKERS = 2


class DaemonSetController:
    """Watches DaemonSets, their pods, and what decides about nodes: names, labels, taints."""

    def __init__(self, workshop: Workshop) -> None:
        client = workshop.account(NAME)
        self._clock = workshop.clock
        self._events = workshop.recorder(NAME)
        self._sets = workshop.cache(DAEMON_SETS)
        self._pods = pods_by_controller(workshop)
        self._nodes = workshop.cache(NODES)
        self._revisions = workshop.cache(REVISIONS)
        add_index_once(self._sets.store, BY_SELECTOR, selector_values)
        self._pod_echo = Echo(self._pods)
        self._claimer = Claimer(client, DAEMON_SETS)
        self._history = History(client, DAEMON_SETS, self._revisions, REVISION_HASH)
        self._hands = Hands(client, self._events, DAEMON_SETS, self._pod_echo)
        self._statuses = StatusWriter(client, DAEMON_SETS, Echo(self._sets))
        self._failed = FailedPods(workshop.clock.monotonic)
        watches = [
            Watch(self._sets),
            Watch(self._pods, self._keys_of_pod),
            # Only to be filled first: a change of these concerns no set by itself.
            Watch(self._revisions, lambda _: ()),
            Watch(self._nodes, lambda _: ()),
        ]
        self._controller = Controller("daemonsets", self._reconcile, watches, workers=_WORKERS)
        self._nodes.store.subscribe(self._node_changed)

    @property
    def controller(self) -> Controller:
        return self._controller

    def _keys_of_pod(self, pod: Pod) -> Iterable[Key]:
        owner = pod.metadata.controller
        if owner is None:
            return keys_of_selecting(self._sets.store, pod.metadata)
        return [(pod.metadata.namespace, owner.name)] if owner.kind == DAEMON_SETS.kind else []

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        """A node's heartbeat is no news; its arrival, labels and taints are, to all sets."""
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
        revisions = await self._history.keep(daemon_set, daemon_set.spec.template, collisions)
        hash_ = revisions.present.metadata.labels.get(REVISION_HASH, "")
        seen = await self._observe(daemon_set, hash_)
        plan, delay = self._failed.held_back(daemon_set, place(seen))
        if plan.is_empty and daemon_set.spec.update_strategy.type == "RollingUpdate":
            plan = update(seen)
        try:
            if not plan.is_empty:
                await self._apply(seen, plan)
                seen = await self._observe(daemon_set, hash_)
        finally:
            await self._statuses.write(daemon_set, status_of(seen, revisions.collisions))
        await self._history.forget(_forgettable(seen, revisions))
        return self._look_again(seen, delay)

    async def _observe(self, daemon_set: DaemonSet, hash_: str) -> Observed:
        known, store = daemon_set.metadata, self._pods.store
        owned = store.find(BY_CONTROLLER, known.uid)
        free = store.find(BY_CONTROLLER, orphans(known.namespace, asked_label(daemon_set)))
        matches = daemon_set.selector.matches
        found = claim(known, [*owned, *free], lambda pod: matches(pod.metadata.labels))
        pods = await self._claimer.settle(known, found, PODS, self._pod_echo)
        # Here, for modules of nodes import those of controllers.
        from kilonova.local.nodes.process.commands import can_run

        eligibility = Eligibility(daemon_set.spec.template, can_run)
        verdicts = {
            node.metadata.name: eligibility.of(node) for node in self._nodes.store.objects()
        }
        return Observed(daemon_set, verdicts, pods_by_node(pods), hash_, self._clock.now())

    async def _apply(self, seen: Observed, plan: Plan) -> None:
        known, about = seen.daemon_set.metadata, self._hands.about(seen.daemon_set.metadata)
        for pod in plan.failed:
            what = f"Found failed daemon pod {known.namespace}/{pod.metadata.name}"
            message = f"{what} on node {target_node(pod)}, will try to kill it"
            self._events.event(about, "FailedDaemonPod", message, warning=True)
        for pod in plan.succeeded:
            what = f"Found succeeded daemon pod {known.namespace}/{pod.metadata.name}"
            message = f"{what} on node {target_node(pod)}, will try to delete it"
            self._events.event(about, "SucceededDaemonPod", message)
        bodies = [_pod(seen, node) for node in plan.create[:BURST]]
        await self._hands.create(known, bodies)
        gone = [*plan.failed, *plan.succeeded, *plan.delete]
        await self._hands.delete(known, gone[:BURST])

    def _look_again(self, seen: Observed, delay: float | None) -> Result | None:
        minimum = seen.daemon_set.spec.min_ready_seconds
        pods = (pod for pods in seen.pods.values() for pod in pods)
        waits = [delay, next_availability(pods, minimum, self._clock.now())]
        soonest = min((wait for wait in waits if wait is not None), default=None)
        return None if soonest is None else Result(soonest)


def _pod(seen: Observed, node: str) -> JsonObject:
    daemon_set = seen.daemon_set
    labels = {REVISION_HASH: seen.hash}
    if generation := daemon_set.metadata.annotations.get(GENERATION_NOTE):
        labels[TEMPLATE_GENERATION] = generation
    template = with_labels(daemon_set.spec.template, labels)
    body = pod_of_template(template, DAEMON_SETS, daemon_set.metadata)
    body["spec"] = pinned_to(with_tolerations(body["spec"]), node)
    return body


def _forgettable(seen: Observed, revisions: Revisions) -> Sequence[ControllerRevision]:
    """The oldest revisions beyond the limit that no pod has any more."""
    live = {pod.metadata.labels.get(REVISION_HASH) for pods in seen.pods.values() for pod in pods}
    past = [
        each for each in revisions.others if each.metadata.labels.get(REVISION_HASH) not in live
    ]
    surplus = len(revisions.others) - seen.daemon_set.spec.revision_history_limit
    return past[: max(surplus, 0)]
