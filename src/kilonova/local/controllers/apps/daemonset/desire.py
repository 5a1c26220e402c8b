"""What a DaemonSet should do, node by node. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from kilonova.local.controllers.apps.daemonset.eligibility import Verdict, target_node
from kilonova.local.controllers.apps.facts import is_available, share_of
from kilonova.local.controllers.apps.objects import DaemonSet, DaemonSetStatus, RollingUpdate
from kilonova.local.controllers.objects import Pod

REVISION_HASH = "controller-revision-hash"
TEMPLATE_GENERATION = "pod-template-generation"
GENERATION_NOTE = "deprecated.daemonset.template.generation"

Pods = Mapping[str, list[Pod]]
"""The pods of a set by the node that they are on, or meant for."""


def pods_by_node(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    """The pods that still count, by node, the first to stay first."""
    found: dict[str, list[Pod]] = {}
    for pod in sorted(pods, key=_by_age):
        node = target_node(pod)
        ended_for_good = pod.ended and pod.metadata.deletion_timestamp is not None
        if node is not None and not ended_for_good:
            found.setdefault(node, []).append(pod)
    return found


@dataclass(slots=True)
class Plan:
    """The nodes that need a pod, the pods to remove, and those that ended by themselves."""

    create: list[str] = field(default_factory=list[str])
    delete: list[Pod] = field(default_factory=list[Pod])
    failed: list[Pod] = field(default_factory=list[Pod])
    succeeded: list[Pod] = field(default_factory=list[Pod])

    @property
    def is_empty(self) -> bool:
        return not (self.create or self.delete or self.failed or self.succeeded)


@dataclass(frozen=True, slots=True)
class Observed:
    """A set, the verdicts on all nodes, its pods by node, and the hash of its template."""

    daemon_set: DaemonSet
    verdicts: Mapping[str, Verdict]
    pods: Pods
    hash: str
    now: datetime

    def is_updated(self, pod: Pod) -> bool:
        """Whether a pod has the template of now."""
        labels = pod.metadata.labels
        generation = self.daemon_set.metadata.annotations.get(GENERATION_NOTE)
        same = generation is not None and labels.get(TEMPLATE_GENERATION) == generation
        return same or labels.get(REVISION_HASH) == self.hash

    def available(self, pod: Pod) -> bool:
        return is_available(pod, self.daemon_set.spec.min_ready_seconds, self.now)

    @property
    def desired(self) -> int:
        """How many nodes should have a pod."""
        return sum(verdict.run for verdict in self.verdicts.values())


def place(seen: Observed) -> Plan:
    """One pod on each node that should have one, none on the others."""
    plan = Plan()
    surges = max_surge(seen.daemon_set, 1) > 0
    for node, verdict in seen.verdicts.items():
        pods = seen.pods.get(node)
        if verdict.run and pods is None:
            plan.create.append(node)
        elif verdict.stay:
            running = _running(pods or [], plan)
            if not surges:
                plan.delete += running[1:]
            elif not running and verdict.run:
                plan.create.append(node)
            else:
                plan.delete += _surplus(seen, running)
        else:
            plan.delete += [pod for pod in pods or [] if not _is_going(pod)]
    for node, pods in seen.pods.items():
        if node not in seen.verdicts:
            plan.delete += [pod for pod in pods if not pod.spec.node_name]
    return plan


def _running(pods: Iterable[Pod], plan: Plan) -> list[Pod]:
    running: list[Pod] = []
    for pod in pods:
        if _is_going(pod):
            continue
        if pod.status.phase == "Failed":
            plan.failed.append(pod)
        elif pod.status.phase == "Succeeded":
            plan.succeeded.append(pod)
        else:
            running.append(pod)
    return running


def _surplus(seen: Observed, running: Sequence[Pod]) -> list[Pod]:
    """What is too much on a node that may have an old and a new pod at a time."""
    new = [pod for pod in running if pod.metadata.labels.get(REVISION_HASH) == seen.hash]
    old = [pod for pod in running if pod not in new]
    gone = new[1:] + old[1:]
    if new and old and (not old[0].ready or seen.available(new[0])):
        gone.append(old[0])
    return gone


def update(seen: Observed) -> Plan:
    """Replace pods of old templates, as many at a time as may be missed or doubled."""
    desired = seen.desired
    surge = max_surge(seen.daemon_set, desired)
    unavailable = _max_unavailable(seen.daemon_set, desired)
    if desired and not surge and not unavailable:
        unavailable = 1
    nodes = {node: seen.pods.get(node, []) for node in seen.pods}
    nodes |= {
        node: [] for node, verdict in seen.verdicts.items() if verdict.run and node not in nodes
    }
    if surge == 0:
        return _replace(seen, nodes, unavailable)
    return _double(seen, nodes, surge, desired)


def _replace(seen: Observed, nodes: Pods, most: int) -> Plan:
    missing = 0
    at_once: list[Pod] = []
    candidates: list[Pod] = []
    for pods in nodes.values():
        new, old = _split(seen, pods)
        if len(new) == 1 and not old:
            missing += not seen.available(new[0])
        elif len(old) == 1 and not new:
            if not seen.available(old[0]):
                at_once.append(old[0])
                missing += 1
            else:
                candidates.append(old[0])
        else:
            missing += 1  # none, or too many: first they are made one
    return Plan(delete=at_once + candidates[: max(most - missing, 0)])


def _double(seen: Observed, nodes: Pods, most: int, desired: int) -> Plan:
    plan = Plan()
    surging = available = 0
    candidates: list[str] = []
    unwanted: list[Pod] = []
    for node, pods in nodes.items():
        new, old = _split(seen, pods)
        if len(new) > 1 or len(old) > 1:
            surging += 1
            continue
        serving = old or new
        available += bool(serving) and seen.available(serving[0])
        if not old:
            continue
        if new:
            if seen.available(new[0]):
                plan.delete.append(old[0])
            else:
                surging += 1
            continue
        runs = node in seen.verdicts and seen.verdicts[node].run
        if seen.available(old[0]):
            candidates += [node] if runs else []
            unwanted += [] if runs else [old[0]]
        elif runs:
            plan.create.append(node)
        else:
            plan.delete.append(old[0])
    plan.delete += unwanted[: max(available - desired, 0)]
    plan.create += candidates[: max(most - surging, 0)]
    return plan


def _split(seen: Observed, pods: Iterable[Pod]) -> tuple[list[Pod], list[Pod]]:
    staying = [pod for pod in pods if not _is_going(pod)]
    new = [pod for pod in staying if seen.is_updated(pod)]
    return new, [pod for pod in staying if not seen.is_updated(pod)]


def status_of(seen: Observed, collisions: int) -> DaemonSetStatus:
    """The status that these pods on these nodes make."""
    counts = {"scheduled": 0, "ready": 0, "available": 0, "updated": 0, "misplaced": 0}
    for node, verdict in seen.verdicts.items():
        pods = seen.pods.get(node)
        if not pods:
            continue
        if not verdict.run:
            counts["misplaced"] += 1
            continue
        first = pods[0]
        counts["scheduled"] += 1
        counts["ready"] += first.ready
        counts["available"] += seen.available(first)
        counts["updated"] += seen.is_updated(first)
    known = seen.daemon_set
    return DaemonSetStatus(
        current_number_scheduled=counts["scheduled"],
        number_misscheduled=counts["misplaced"],
        desired_number_scheduled=seen.desired,
        number_ready=counts["ready"],
        observed_generation=known.metadata.generation,
        updated_number_scheduled=counts["updated"],
        number_available=counts["available"],
        number_unavailable=seen.desired - counts["available"],
        collision_count=collisions or known.status.collision_count,
    )


def max_surge(daemon_set: DaemonSet, nodes: int) -> int:
    """How many nodes may have an old and a new pod at a time."""
    rolling = _rolling(daemon_set)
    return share_of(rolling.max_surge, nodes, up=True) if rolling else 0


def _max_unavailable(daemon_set: DaemonSet, nodes: int) -> int:
    rolling = _rolling(daemon_set)
    return share_of(rolling.max_unavailable, nodes, up=True) if rolling else 0


def _rolling(daemon_set: DaemonSet) -> RollingUpdate | None:
    strategy = daemon_set.spec.update_strategy
    return strategy.rolling_update if strategy.type == "RollingUpdate" else None


def _is_going(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def _by_age(pod: Pod) -> tuple[bool, str, str]:
    """Sorts placed pods first, of those the oldest."""
    return not pod.spec.node_name, pod.metadata.creation_timestamp, pod.metadata.name
