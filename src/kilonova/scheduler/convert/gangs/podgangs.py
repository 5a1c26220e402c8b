"""PodGangs and single pods as gangs of `core`."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from kilonova.api.durations import parse_duration
from kilonova.api.grove import names
from kilonova.api.podgang import PodGang, PodGroup, TopologyConstraint
from kilonova.api.scheduling_names import (
    AVOID_NODES,
    DURATION,
    KAI_QUEUE,
    PREEMPTIBLE,
    QUEUE,
    SEGMENT,
)
from kilonova.api.times import parse_time
from kilonova.scheduler.convert.gangs.pod_groups import PodGroupGang, PodGroupRef
from kilonova.scheduler.convert.pods.members import InvalidRequest, convert_pod
from kilonova.scheduler.core.model.gangs import (
    Gang,
    GangAntiAffinity,
    Group,
    GroupBundle,
    Member,
    PackConstraint,
    SegmentConstraint,
)
from kilonova.scheduler.core.queueing.queues import DEFAULT_QUEUE
from kilonova.scheduler.objects.core_v1 import Pod

INVALID_REQUEST = "InvalidRequest"
"""The reason of a gang with invalid requests or annotations."""
POD_GROUP_NOT_FOUND = "PodGroupNotFound"
"""The reason of a pod whose PodGroup does not exist."""
_SINGLE_POD_PREFIX = "pod/"


@dataclass(frozen=True, slots=True)
class GangNotReady:
    """A gang that cannot be scheduled as it is, whatever the capacity."""

    reason: str
    message: str
    pods: tuple[str, ...] = ()
    """Its pods, as far as they are known."""


FindPod = Callable[[str], Pod | None]
"""The pod of a key, NAMESPACE/NAME."""
ToMember = Callable[[Pod], Member]
"""Converts a pod; raises `InvalidRequest`."""


def convert_podgang(
    gang: PodGang,
    find_pod: FindPod,
    to_member: ToMember = convert_pod,
    *,
    base_nodes: Sequence[str] | None = None,
) -> Gang | GangNotReady:
    """Convert a PodGang and its pods.

    `base_nodes` are the nodes of its base gang, which must be placed first; None if it is not.
    """
    converted = _convert_podgang_spec(gang, find_pod, to_member, base_nodes)
    if isinstance(converted, GangNotReady):
        return replace(converted, pods=tuple(podgang_pod_keys(gang)))
    return _apply_pod_group_policy(gang, converted)


def _convert_podgang_spec(
    gang: PodGang, find_pod: FindPod, to_member: ToMember, base_nodes: Sequence[str] | None
) -> Gang | GangNotReady:
    if gang.spec.base_ref is not None and base_nodes is None:
        return GangNotReady(
            "BaseGangNotScheduled",
            f"waiting for its base gang {gang.spec.base_ref.name} to be scheduled",
        )
    groups: list[Group] = []
    pods: list[Pod] = []
    for each in gang.spec.pod_groups:
        members = _find_group_pods(each, find_pod)
        group = _convert_group(each, members, to_member)
        if isinstance(group, GangNotReady):
            return group
        groups.append(group)
        pods.extend(members)
    pack = _convert_pack_constraint(gang.spec.topology_constraint)
    try:
        return Gang(
            name=f"{gang.metadata.namespace}/{gang.metadata.name}",
            groups=tuple(_with_avoided_nodes(groups, gang.metadata.annotations)),
            pack=pack,
            bundles=tuple(
                GroupBundle(
                    each.pod_group_names, _convert_pack_constraint(each.topology_constraint)
                )
                for each in gang.spec.topology_constraint_group_configs
            ),
            anti_affinity=_convert_gang_spread(gang),
            base_nodes=tuple(base_nodes or ()) if pack.required else (),
            priority=max((pod.spec.priority for pod in pods), default=0),
            preempts=_can_preempt(pods),
            created=parse_time(gang.metadata.creation_timestamp).timestamp(),
            **_read_gang_settings(gang.metadata.labels, gang.metadata.annotations, pods),
        )
    except InvalidRequest as error:
        return GangNotReady(error.reason, str(error))


def convert_placed_podgang(
    gang: PodGang, find_pod: FindPod, to_member: ToMember = convert_pod
) -> Gang | None:
    """The placed pods of a gang that cannot be scheduled as it is; None if they are invalid."""
    groups: list[Group] = []
    pods: list[Pod] = []
    try:
        for each in gang.spec.pod_groups:
            placed_pods = [pod for pod in _find_group_pods(each, find_pod) if is_placed(pod)]
            nodes = tuple(pod.spec.node_name for pod in placed_pods)
            members = tuple(map(to_member, placed_pods))
            groups.append(
                Group(each.name, (), each.min_replicas, placed_nodes=nodes, placed_members=members)
            )
            pods.extend(placed_pods)
        placed_gang = Gang(
            name=f"{gang.metadata.namespace}/{gang.metadata.name}",
            groups=tuple(groups),
            anti_affinity=_convert_gang_spread(gang),
            priority=max((pod.spec.priority for pod in pods), default=0),
            created=parse_time(gang.metadata.creation_timestamp).timestamp(),
            **_read_gang_settings(gang.metadata.labels, gang.metadata.annotations, pods),
        )
        return _apply_pod_group_policy(gang, placed_gang)
    except InvalidRequest:
        return None


def podgang_pod_keys(gang: PodGang) -> Iterable[str]:
    """The pods that a gang lists, as NAMESPACE/NAME."""
    groups = gang.spec.pod_groups
    return (f"{ref.namespace}/{ref.name}" for group in groups for ref in group.pod_references)


def _apply_pod_group_policy(gang: PodGang, converted: Gang) -> Gang:
    """A gang with the priority and disruption mode of its PodGroup."""
    if not isinstance(gang, PodGroupGang):
        return converted
    if gang.disrupt_as_group:
        groups = (
            replace(each, minimum=max(each.minimum, len(each.placed_nodes)))
            for each in converted.groups
        )
        converted = replace(converted, groups=tuple(groups))
    return converted if gang.priority is None else replace(converted, priority=gang.priority)


def _convert_gang_spread(gang: PodGang) -> GangAntiAffinity | None:
    """The anti-affinity of a gang towards gangs of its namespace with the same label value."""
    spread = gang.spec.spread
    if spread is None:
        return None
    value = gang.metadata.labels.get(spread.among, "")
    among = f"{gang.metadata.namespace}/{spread.among}={value}"
    return GangAntiAffinity(spread.topology_key, spread.required, group_key=among)


def _find_group_pods(group: PodGroup, find_pod: FindPod) -> list[Pod]:
    pods = (find_pod(f"{ref.namespace}/{ref.name}") for ref in group.pod_references)
    return [pod for pod in pods if pod is not None]


def convert_single_pod(pod: Pod, to_member: ToMember = convert_pod) -> Gang | GangNotReady:
    """A pod without a gang, as a gang of one."""
    try:
        member, node = to_member(pod), pod.spec.node_name
        placed_group = Group(
            pod.metadata.name, (), 1, placed_nodes=(node,), placed_members=(member,)
        )
        groups = [placed_group if node else Group(pod.metadata.name, (member,), 1)]
        return Gang(
            name=single_pod_gang_name(pod.key),
            groups=tuple(_with_avoided_nodes(groups, pod.metadata.annotations)),
            priority=pod.spec.priority,
            preempts=_can_preempt((pod,)),
            created=parse_time(pod.metadata.creation_timestamp).timestamp(),
            **_read_gang_settings(pod.metadata.labels, pod.metadata.annotations, ()),
        )
    except InvalidRequest as error:
        return GangNotReady(error.reason, str(error))


def pod_group_not_found(ref: PodGroupRef) -> GangNotReady:
    """The result for a pod whose PodGroup does not exist."""
    message = f"{ref.kind}/{ref.name} not found"
    return GangNotReady(POD_GROUP_NOT_FOUND, message)


def single_pod_gang_name(pod: str) -> str:
    """The gang name of a single pod; no PodGang's name has two slashes."""
    return f"{_SINGLE_POD_PREFIX}{pod}"


def is_single_pod_gang(gang: str) -> bool:
    """Whether a gang is a single pod."""
    return gang.startswith(_SINGLE_POD_PREFIX) and gang.count("/") == 2


def gang_object_key(gang: str) -> str:
    """NAMESPACE/NAME of the object of a gang."""
    return "/".join(gang.split("/")[-2:])


def single_pod_key(gang: str) -> str:
    """The pod of a single-pod gang."""
    return gang.removeprefix(_SINGLE_POD_PREFIX)


def is_schedulable(pod: Pod) -> bool:
    """Whether a pod is pending and not gated."""
    return not (
        pod.spec.node_name
        or pod.spec.scheduling_gates
        or pod.metadata.deletion_timestamp
        or pod.ended
    )


def is_placed(pod: Pod) -> bool:
    """Whether a pod is bound, has not ended and is not terminating."""
    return bool(pod.spec.node_name) and not pod.ended and not pod.metadata.deletion_timestamp


def _convert_group(
    group: PodGroup, pods: Sequence[Pod], to_member: ToMember
) -> Group | GangNotReady:
    pending = sorted((pod for pod in pods if is_schedulable(pod)), key=_rank_sort_key)
    placed = sorted((pod for pod in pods if is_placed(pod)), key=_rank_sort_key)
    done = sum(pod.status.phase == "Succeeded" for pod in pods)
    minimum = max(0, group.min_replicas - done)
    missing = minimum - len(placed) - len(pending)
    if missing > 0:
        gated = sum(bool(pod.spec.scheduling_gates) for pod in pods)
        why = f"{gated} of its pods are gated" if gated else "not all of its pods exist"
        message = f"group {group.name} needs {missing} more pods: {why}"
        return GangNotReady("PodsNotFound", message)
    try:
        return Group(
            group.name,
            tuple(map(to_member, pending)),
            minimum,
            _convert_pack_constraint(group.topology_constraint),
            _parse_segments(pods),
            tuple(pod.spec.node_name for pod in placed),
            tuple(map(to_member, placed)),
            len(group.pod_references) - len(pods),
        )
    except InvalidRequest as error:
        return GangNotReady(error.reason, f"group {group.name}: {error}")


def _rank_sort_key(pod: Pod) -> tuple[int, str]:
    labels = pod.metadata.labels
    index = next((labels[label] for label in _INDEX_LABELS if label in labels), "")
    return int(index) if index.isascii() and index.isdecimal() else -1, pod.metadata.name


def _convert_pack_constraint(constraint: TopologyConstraint | None) -> PackConstraint:
    pack = constraint.pack_constraint if constraint is not None else None
    return (
        PackConstraint()
        if pack is None
        else PackConstraint(pack.required or "", pack.preferred or "")
    )


def _parse_segments(pods: Sequence[Pod]) -> SegmentConstraint | None:
    text = next(
        (pod.metadata.annotations[SEGMENT] for pod in pods if SEGMENT in pod.metadata.annotations),
        None,
    )
    if text is None:
        return None
    match = _SEGMENT_PATTERN.fullmatch(text)
    if match is None:
        raise InvalidRequest(
            f"metadata.annotations[{SEGMENT}]", text, "is not a segment: use SIZE@LABEL-KEY"
        )
    return SegmentConstraint(int(match[1]), match[2])


class _GangSettings(TypedDict):
    queue: str
    duration: float | None
    preemptible: bool


def _read_gang_settings(
    labels: Mapping[str, str], annotations: Mapping[str, str], pods: Sequence[Pod]
) -> _GangSettings:
    """Queue, duration and preemptibility of a gang, set on itself or on its first pod."""
    first = pods[0].metadata if pods else None

    def lookup(name: str, own: Mapping[str, str], theirs: Mapping[str, str]) -> str | None:
        return own.get(name, theirs.get(name))

    pod_labels = first.labels if first is not None else {}
    pod_annotations = first.annotations if first is not None else {}
    queue = (
        lookup(QUEUE, labels, pod_labels) or lookup(KAI_QUEUE, labels, pod_labels) or DEFAULT_QUEUE
    )
    text = lookup(DURATION, annotations, pod_annotations)
    try:
        duration = None if text is None else parse_duration(text)
    except ValueError:
        raise InvalidRequest(
            f"metadata.annotations[{DURATION}]", text or "", "is not a duration: use 2h30m"
        ) from None
    preemptible = lookup(PREEMPTIBLE, annotations, pod_annotations) != "false"
    return _GangSettings(queue=queue, duration=duration, preemptible=preemptible)


def _can_preempt(pods: Iterable[Pod]) -> bool:
    """Whether a gang may preempt: not if any of its pods has the policy Never, which admission
    copies from the PriorityClass to each pod."""
    return all(pod.spec.preemption_policy != "Never" for pod in pods)


def _with_avoided_nodes(groups: Iterable[Group], annotations: Mapping[str, str]) -> Iterable[Group]:
    """Groups that avoid the nodes named in an annotation."""
    nodes = frozenset(
        name.strip() for name in annotations.get(AVOID_NODES, "").split(",") if name.strip()
    )
    for group in groups:
        if nodes:
            members = tuple(
                replace(member, shape=replace(member.shape, avoided_nodes=nodes))
                for member in group.members
            )
            group = replace(group, members=members)
        yield group


_INDEX_LABELS = (
    names.POD_INDEX,
    "batch.kubernetes.io/job-completion-index",
    "apps.kubernetes.io/pod-index",
)
"""Labels with the rank of a pod in its clique, Job or StatefulSet."""
_SEGMENT_PATTERN = re.compile(r"([1-9][0-9]{0,5})@([A-Za-z0-9._/-]+)", re.ASCII)
