"""Which daemon pods to create and delete, node by node. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from kilonova.local.controllers.apps.daemonset.eligibility import NodeDecision, target_node
from kilonova.local.controllers.apps.objects import (
    DaemonSet,
    DaemonSetStatus,
    RollingUpdateStrategy,
)
from kilonova.local.controllers.apps.pod_state import is_available, resolve_int_or_percent
from kilonova.local.objects.core import Pod

REVISION_HASH = "controller-revision-hash"
TEMPLATE_GENERATION = "pod-template-generation"
GENERATION_ANNOTATION = "deprecated.daemonset.template.generation"

PodsByNode = Mapping[str, list[Pod]]
"""The pods of a DaemonSet by the node that they are bound to or pinned to."""


def pods_by_node(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    """The active pods by node, those to keep first."""
    found: dict[str, list[Pod]] = {}
    for pod in sorted(pods, key=_placed_then_oldest_key):
        node = target_node(pod)
        ended_for_good = pod.is_terminal and pod.metadata.deletion_timestamp is not None
        if node is not None and not ended_for_good:
            found.setdefault(node, []).append(pod)
    return found


@dataclass(slots=True)
class DaemonSetPlan:
    """The nodes that need a pod, the pods to delete, and the pods that have ended."""

    create: list[str] = field(default_factory=list[str])
    delete: list[Pod] = field(default_factory=list[Pod])
    failed: list[Pod] = field(default_factory=list[Pod])
    succeeded: list[Pod] = field(default_factory=list[Pod])

    @property
    def is_empty(self) -> bool:
        return not (self.create or self.delete or self.failed or self.succeeded)


@dataclass(frozen=True, slots=True)
class ObservedDaemonSet:
    """A DaemonSet, the decisions for all nodes, its pods by node, and the hash of its template."""

    daemon_set: DaemonSet
    node_decisions: Mapping[str, NodeDecision]
    pods: PodsByNode
    hash: str
    now: datetime

    def is_updated(self, pod: Pod) -> bool:
        """Whether a pod has the current template."""
        labels = pod.metadata.labels
        generation = self.daemon_set.metadata.annotations.get(GENERATION_ANNOTATION)
        same = generation is not None and labels.get(TEMPLATE_GENERATION) == generation
        return same or labels.get(REVISION_HASH) == self.hash

    def is_available(self, pod: Pod) -> bool:
        return is_available(pod, self.daemon_set.spec.min_ready_seconds, self.now)

    @property
    def desired_scheduled(self) -> int:
        """How many nodes should have a pod."""
        return sum(decision.should_run for decision in self.node_decisions.values())


def plan_node_pods(observed: ObservedDaemonSet) -> DaemonSetPlan:
    """One pod on each node that should run one, none on the others."""
    plan = DaemonSetPlan()
    surges = resolve_max_surge(observed.daemon_set, 1) > 0
    for node, decision in observed.node_decisions.items():
        pods = observed.pods.get(node)
        if decision.should_run and pods is None:
            plan.create.append(node)
        elif decision.should_continue_running:
            running = _select_running(pods or [], plan)
            if not surges:
                plan.delete += running[1:]
            elif not running and decision.should_run:
                plan.create.append(node)
            else:
                plan.delete += _select_surge_surplus(observed, running)
        else:
            plan.delete += [pod for pod in pods or [] if not _is_terminating(pod)]
    for node, pods in observed.pods.items():
        if node not in observed.node_decisions:
            plan.delete += [pod for pod in pods if not pod.spec.node_name]
    return plan


def _select_running(pods: Iterable[Pod], plan: DaemonSetPlan) -> list[Pod]:
    running: list[Pod] = []
    for pod in pods:
        if _is_terminating(pod):
            continue
        if pod.status.phase == "Failed":
            plan.failed.append(pod)
        elif pod.status.phase == "Succeeded":
            plan.succeeded.append(pod)
        else:
            running.append(pod)
    return running


def _select_surge_surplus(observed: ObservedDaemonSet, running: Sequence[Pod]) -> list[Pod]:
    """The surplus pods of a node that may have an old and a new pod at a time."""
    new = [pod for pod in running if pod.metadata.labels.get(REVISION_HASH) == observed.hash]
    old = [pod for pod in running if pod not in new]
    to_delete = new[1:] + old[1:]
    if new and old and (not old[0].is_ready or observed.is_available(new[0])):
        to_delete.append(old[0])
    return to_delete


def plan_rolling_update(observed: ObservedDaemonSet) -> DaemonSetPlan:
    """Replace pods of old templates, within maxUnavailable or maxSurge."""
    desired = observed.desired_scheduled
    surge = resolve_max_surge(observed.daemon_set, desired)
    unavailable = _resolve_max_unavailable(observed.daemon_set, desired)
    if desired and not surge and not unavailable:
        unavailable = 1
    nodes = {node: observed.pods.get(node, []) for node in observed.pods}
    nodes |= {
        node: []
        for node, decision in observed.node_decisions.items()
        if decision.should_run and node not in nodes
    }
    if surge == 0:
        return _plan_replacement(observed, nodes, unavailable)
    return _plan_surge(observed, nodes, surge, desired)


def _plan_replacement(
    observed: ObservedDaemonSet, nodes: PodsByNode, max_unavailable: int
) -> DaemonSetPlan:
    missing = 0
    at_once: list[Pod] = []
    candidates: list[Pod] = []
    for pods in nodes.values():
        new, old = _split_by_revision(observed, pods)
        if len(new) == 1 and not old:
            missing += not observed.is_available(new[0])
        elif len(old) == 1 and not new:
            if not observed.is_available(old[0]):
                at_once.append(old[0])
                missing += 1
            else:
                candidates.append(old[0])
        else:
            missing += 1  # no pod, or too many: corrected before the update
    return DaemonSetPlan(delete=at_once + candidates[: max(max_unavailable - missing, 0)])


def _plan_surge(
    observed: ObservedDaemonSet, nodes: PodsByNode, max_surge: int, desired: int
) -> DaemonSetPlan:
    plan = DaemonSetPlan()
    surging = available = 0
    candidates: list[str] = []
    unwanted: list[Pod] = []
    for node, pods in nodes.items():
        new, old = _split_by_revision(observed, pods)
        if len(new) > 1 or len(old) > 1:
            surging += 1
            continue
        serving = old or new
        available += bool(serving) and observed.is_available(serving[0])
        if not old:
            continue
        if new:
            if observed.is_available(new[0]):
                plan.delete.append(old[0])
            else:
                surging += 1
            continue
        runs = node in observed.node_decisions and observed.node_decisions[node].should_run
        if observed.is_available(old[0]):
            candidates += [node] if runs else []
            unwanted += [] if runs else [old[0]]
        elif runs:
            plan.create.append(node)
        else:
            plan.delete.append(old[0])
    plan.delete += unwanted[: max(available - desired, 0)]
    plan.create += candidates[: max(max_surge - surging, 0)]
    return plan


def _split_by_revision(
    observed: ObservedDaemonSet, pods: Iterable[Pod]
) -> tuple[list[Pod], list[Pod]]:
    remaining = [pod for pod in pods if not _is_terminating(pod)]
    new = [pod for pod in remaining if observed.is_updated(pod)]
    return new, [pod for pod in remaining if not observed.is_updated(pod)]


def compute_status(observed: ObservedDaemonSet, collisions: int) -> DaemonSetStatus:
    """The status computed from these pods on these nodes."""
    counts = {"scheduled": 0, "ready": 0, "available": 0, "updated": 0, "misplaced": 0}
    for node, decision in observed.node_decisions.items():
        pods = observed.pods.get(node)
        if not pods:
            continue
        if not decision.should_run:
            counts["misplaced"] += 1
            continue
        first = pods[0]
        counts["scheduled"] += 1
        counts["ready"] += first.is_ready
        counts["available"] += observed.is_available(first)
        counts["updated"] += observed.is_updated(first)
    daemon_set = observed.daemon_set
    return DaemonSetStatus(
        current_number_scheduled=counts["scheduled"],
        number_misscheduled=counts["misplaced"],
        desired_number_scheduled=observed.desired_scheduled,
        number_ready=counts["ready"],
        observed_generation=daemon_set.metadata.generation,
        updated_number_scheduled=counts["updated"],
        number_available=counts["available"],
        number_unavailable=observed.desired_scheduled - counts["available"],
        collision_count=collisions or daemon_set.status.collision_count,
    )


def resolve_max_surge(daemon_set: DaemonSet, nodes: int) -> int:
    """How many nodes may have an old and a new pod at a time."""
    rolling = _rolling_update(daemon_set)
    return resolve_int_or_percent(rolling.max_surge, nodes, round_up=True) if rolling else 0


def _resolve_max_unavailable(daemon_set: DaemonSet, nodes: int) -> int:
    rolling = _rolling_update(daemon_set)
    return resolve_int_or_percent(rolling.max_unavailable, nodes, round_up=True) if rolling else 0


def _rolling_update(daemon_set: DaemonSet) -> RollingUpdateStrategy | None:
    strategy = daemon_set.spec.update_strategy
    return strategy.rolling_update if strategy.type == "RollingUpdate" else None


def _is_terminating(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def _placed_then_oldest_key(pod: Pod) -> tuple[bool, str, str]:
    """Sorts bound pods first, then by age, the oldest first."""
    return not pod.spec.node_name, pod.metadata.creation_timestamp, pod.metadata.name
