"""Gangs, from PodGangs and their pods to what is placed together."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

from kilonova.api.durations import parse_duration
from kilonova.api.grove import names
from kilonova.api.podgang import PodGang, PodGroup, TopologyConstraint
from kilonova.api.schedulingnames import AVOID, DURATION, KAI_QUEUE, PREEMPTIBLE, QUEUE, SEGMENT
from kilonova.api.times import parse_time
from kilonova.scheduler.core.gangs import Apart, Bundle, Gang, Group, Member, Pack, Segments
from kilonova.scheduler.core.queues import DEFAULT
from kilonova.scheduler.objects import Pod
from kilonova.scheduler.reading.podgroups import GroupGang, GroupRef
from kilonova.scheduler.reading.pods import Misread, member_of

MISREAD = "Misread"
"""Why a gang is not placed that asks for something which nobody can read."""
NO_GROUP = "NoPodGroup"
"""Why a pod is not placed that belongs to a group which is not there."""
_LONE = "pod/"


@dataclass(frozen=True, slots=True)
class NotYet:
    """A gang that cannot be placed as it is, whatever room there is."""

    reason: str
    message: str
    pods: tuple[str, ...] = ()
    """Its pods, as far as they are known."""


Found = Callable[[str], Pod | None]
"""The pod of a key, NAMESPACE/NAME."""
Read = Callable[[Pod], Member]
"""What a pod asks for; `Misread` if nobody can say."""


def read_gang(
    gang: PodGang,
    found: Found,
    member: Read = member_of,
    *,
    base: Sequence[str] | None = None,
) -> Gang | NotYet:
    """What of a gang is to be placed.

    `base` are the nodes of the gang that must be placed before this one, None if it is not placed.
    """
    read = _read_gang(gang, found, member, base)
    if isinstance(read, NotYet):
        return replace(read, pods=tuple(pods_of_gang(gang)))
    return _by_its_group(gang, read)


def _read_gang(
    gang: PodGang, found: Found, member: Read, base: Sequence[str] | None
) -> Gang | NotYet:
    if gang.spec.base_ref is not None and base is None:
        return NotYet(
            "BaseNotPlaced", f"waits for gang {gang.spec.base_ref.name}, which it belongs to"
        )
    groups: list[Group] = []
    pods: list[Pod] = []
    for each in gang.spec.pod_groups:
        members = _pods_of(each, found)
        group = _group(each, members, member)
        if isinstance(group, NotYet):
            return group
        groups.append(group)
        pods.extend(members)
    pack = _pack(gang.spec.topology_constraint)
    try:
        return Gang(
            name=f"{gang.metadata.namespace}/{gang.metadata.name}",
            groups=tuple(_avoiding(groups, gang.metadata.annotations)),
            pack=pack,
            bundles=tuple(
                Bundle(each.pod_group_names, _pack(each.topology_constraint))
                for each in gang.spec.topology_constraint_group_configs
            ),
            apart=_apart(gang),
            within=tuple(base or ()) if pack.required else (),
            priority=max((pod.spec.priority for pod in pods), default=0),
            preempts=_preempt(pods),
            created=parse_time(gang.metadata.creation_timestamp).timestamp(),
            **_said(gang.metadata.labels, gang.metadata.annotations, pods),
        )
    except Misread as error:
        return NotYet(error.reason, str(error))


def read_standing(gang: PodGang, found: Found, member: Read = member_of) -> Gang | None:
    """What stands of a gang that cannot be placed as it is; None if nobody can say."""
    groups: list[Group] = []
    pods: list[Pod] = []
    try:
        for each in gang.spec.pod_groups:
            standing = [pod for pod in _pods_of(each, found) if stands(pod)]
            nodes = tuple(pod.spec.node_name for pod in standing)
            members = tuple(map(member, standing))
            groups.append(Group(each.name, (), each.min_replicas, placed=nodes, standing=members))
            pods.extend(standing)
        standing = Gang(
            name=f"{gang.metadata.namespace}/{gang.metadata.name}",
            groups=tuple(groups),
            apart=_apart(gang),
            priority=max((pod.spec.priority for pod in pods), default=0),
            created=parse_time(gang.metadata.creation_timestamp).timestamp(),
            **_said(gang.metadata.labels, gang.metadata.annotations, pods),
        )
        return _by_its_group(gang, standing)
    except Misread:
        return None


def pods_of_gang(gang: PodGang) -> Iterable[str]:
    """The pods that a gang lists, as NAMESPACE/NAME."""
    groups = gang.spec.pod_groups
    return (f"{ref.namespace}/{ref.name}" for group in groups for ref in group.pod_references)


def _by_its_group(gang: PodGang, read: Gang) -> Gang:
    """A gang with what only groups of others say."""
    if not isinstance(gang, GroupGang):
        return read
    if gang.whole:
        groups = (
            replace(each, minimum=max(each.minimum, len(each.placed))) for each in read.groups
        )
        read = replace(read, groups=tuple(groups))
    return read if gang.priority is None else replace(read, priority=gang.priority)


def _apart(gang: PodGang) -> Apart | None:
    """From which gangs it keeps apart: those of its namespace that share a label with it."""
    spread = gang.spec.spread
    if spread is None:
        return None
    value = gang.metadata.labels.get(spread.among, "")
    among = f"{gang.metadata.namespace}/{spread.among}={value}"
    return Apart(spread.topology_key, spread.required, among=among)


def _pods_of(group: PodGroup, found: Found) -> list[Pod]:
    pods = (found(f"{ref.namespace}/{ref.name}") for ref in group.pod_references)
    return [pod for pod in pods if pod is not None]


def read_lone_pod(pod: Pod, member: Read = member_of) -> Gang | NotYet:
    """A pod without a gang."""
    try:
        one, node = member(pod), pod.spec.node_name
        alone = Group(pod.metadata.name, (), 1, placed=(node,), standing=(one,))
        groups = [alone if node else Group(pod.metadata.name, (one,), 1)]
        return Gang(
            name=lone_name(pod.key),
            groups=tuple(_avoiding(groups, pod.metadata.annotations)),
            priority=pod.spec.priority,
            preempts=_preempt((pod,)),
            created=parse_time(pod.metadata.creation_timestamp).timestamp(),
            **_said(pod.metadata.labels, pod.metadata.annotations, ()),
        )
    except Misread as error:
        return NotYet(error.reason, str(error))


def not_there(ref: GroupRef) -> NotYet:
    """What is told of a pod whose group nobody made yet."""
    message = f"waits for {ref.kind}/{ref.name}, which it names and which is not there"
    return NotYet(NO_GROUP, message)


def lone_name(pod: str) -> str:
    """What the gang of a pod without one is called; no PodGang's name has two strokes."""
    return f"{_LONE}{pod}"


def is_lone(gang: str) -> bool:
    """Whether a gang is that of a pod without one."""
    return gang.startswith(_LONE) and gang.count("/") == 2


def plain_name(gang: str) -> str:
    """NAMESPACE/NAME of the object whose gang this is."""
    return "/".join(gang.split("/")[-2:])


def pod_of_lone(gang: str) -> str:
    """The pod whose gang of one this is."""
    return gang.removeprefix(_LONE)


def is_placeable(pod: Pod) -> bool:
    """Whether a node should be looked for."""
    return not (
        pod.spec.node_name
        or pod.spec.scheduling_gates
        or pod.metadata.deletion_timestamp
        or pod.ended
    )


def stands(pod: Pod) -> bool:
    """Whether a pod has a node, and will go on using it."""
    return bool(pod.spec.node_name) and not pod.ended and not pod.metadata.deletion_timestamp


def _group(group: PodGroup, pods: Sequence[Pod], member: Read) -> Group | NotYet:
    waiting = sorted((pod for pod in pods if is_placeable(pod)), key=_rank)
    standing = sorted((pod for pod in pods if stands(pod)), key=_rank)
    done = sum(pod.status.phase == "Succeeded" for pod in pods)
    minimum = max(0, group.min_replicas - done)
    lacking = minimum - len(standing) - len(waiting)
    if lacking > 0:
        gated = sum(bool(pod.spec.scheduling_gates) for pod in pods)
        why = f"{gated} of its pods are gated" if gated else "not all of its pods are there"
        message = f"group {group.name} waits for {lacking} more pods: {why}"
        return NotYet("PodsNotThere", message)
    try:
        return Group(
            group.name,
            tuple(map(member, waiting)),
            minimum,
            _pack(group.topology_constraint),
            _segments(pods),
            tuple(pod.spec.node_name for pod in standing),
            tuple(map(member, standing)),
            len(group.pod_references) - len(pods),
        )
    except Misread as error:
        return NotYet(error.reason, f"group {group.name}: {error}")


def _rank(pod: Pod) -> tuple[int, str]:
    labels = pod.metadata.labels
    index = next((labels[label] for label in _INDEXES if label in labels), "")
    return int(index) if index.isascii() and index.isdecimal() else -1, pod.metadata.name


def _pack(constraint: TopologyConstraint | None) -> Pack:
    pack = constraint.pack_constraint if constraint is not None else None
    return Pack() if pack is None else Pack(pack.required or "", pack.preferred or "")


def _segments(pods: Sequence[Pod]) -> Segments | None:
    text = next(
        (pod.metadata.annotations[SEGMENT] for pod in pods if SEGMENT in pod.metadata.annotations),
        None,
    )
    if text is None:
        return None
    match = _SEGMENT.fullmatch(text)
    if match is None:
        raise Misread(
            f"metadata.annotations[{SEGMENT}]", text, "is no segment: write SIZE@LABEL-KEY"
        )
    return Segments(int(match[1]), match[2])


class _Said(TypedDict):
    queue: str
    duration: float | None
    preemptible: bool


def _said(labels: Mapping[str, str], annotations: Mapping[str, str], pods: Sequence[Pod]) -> _Said:
    """What people said about a gang, on itself or on its pods."""
    first = pods[0].metadata if pods else None

    def of(name: str, own: Mapping[str, str], theirs: Mapping[str, str]) -> str | None:
        return own.get(name, theirs.get(name))

    pod_labels = first.labels if first is not None else {}
    pod_annotations = first.annotations if first is not None else {}
    queue = of(QUEUE, labels, pod_labels) or of(KAI_QUEUE, labels, pod_labels) or DEFAULT
    text = of(DURATION, annotations, pod_annotations)
    try:
        duration = None if text is None else parse_duration(text)
    except ValueError:
        raise Misread(
            f"metadata.annotations[{DURATION}]", text or "", "is no duration: write 2h30m"
        ) from None
    preemptible = of(PREEMPTIBLE, annotations, pod_annotations) != "false"
    return _Said(queue=queue, duration=duration, preemptible=preemptible)


def _preempt(pods: Iterable[Pod]) -> bool:
    """Whether others may be evicted for a gang: not if one of its pods says never. Admission copies
    the policy of its PriorityClass to each pod."""
    return all(pod.spec.preemption_policy != "Never" for pod in pods)


def _avoiding(groups: Iterable[Group], annotations: Mapping[str, str]) -> Iterable[Group]:
    """Groups that keep away from nodes on which they failed."""
    nodes = frozenset(
        name.strip() for name in annotations.get(AVOID, "").split(",") if name.strip()
    )
    for group in groups:
        if nodes:
            members = tuple(
                replace(member, shape=replace(member.shape, avoided=nodes))
                for member in group.members
            )
            group = replace(group, members=members)
        yield group


_INDEXES = (
    names.POD_INDEX,
    "batch.kubernetes.io/job-completion-index",
    "apps.kubernetes.io/pod-index",
)
"""Labels that say the rank of a pod: those of cliques, of Jobs, of StatefulSets."""
_SEGMENT = re.compile(r"([1-9][0-9]{0,5})@([A-Za-z0-9._/-]+)", re.ASCII)
