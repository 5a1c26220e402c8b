"""How many instances of a template fit, by the scheduler's own decision on a snapshot. Pure."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from kilonova.api.inference_engine import names
from kilonova.instances.alloc.instance_gang import build_instance_gang
from kilonova.instances.allocation import AllocationConstraints
from kilonova.instances.builders.engine import Engine, InvalidSpec
from kilonova.instances.builders.identity import Identity
from kilonova.kube import Key
from kilonova.scheduler.core.model.gangs import Member
from kilonova.scheduler.library.copies import count_copies
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class CapacityQuestion:
    """Instances that do not exist."""

    identity: Identity
    engine: Engine
    constraints: AllocationConstraints
    scheduler_name: str
    limit: int
    """The greatest number that matters."""
    preempts: bool = False
    """Whether they may evict others, as far as their priority allows."""


def count_instances(snapshot: ClusterSnapshot, question: CapacityQuestion) -> tuple[int, str]:
    """How many fit, and why there could not be more; the reason is empty at the limit."""
    try:
        gang = build_instance_gang(
            question.identity,
            question.engine,
            question.constraints,
            snapshot,
            scheduler_name=question.scheduler_name,
        )
    except InvalidSpec as error:
        return 0, str(error)
    if not question.preempts:
        gang = replace(gang, preempts=False)
    copies = count_copies(snapshot, gang, question.limit)
    return copies.count, "" if copies.unplaced is None else copies.unplaced.message


def without_instances(snapshot: ClusterSnapshot, instances: Collection[Key]) -> ClusterSnapshot:
    """The snapshot as it would be if instances were gone."""

    def is_gone(pod: str, member: Member) -> bool:
        namespace = pod.partition("/")[0]
        return (namespace, member.labels.get(names.MODEL_INSTANCE, "")) in instances

    gone = {each.pod for each in snapshot.placements if is_gone(each.pod, each.member)}
    return replace(
        snapshot,
        placements=tuple(each for each in snapshot.placements if each.pod not in gone),
        running_gangs=tuple(each for each in snapshot.running_gangs if gone.isdisjoint(each.pods)),
        pending_gangs=tuple(
            each
            for each in snapshot.pending_gangs
            if not any(is_gone(one.pod, one) for group in each.groups for one in group.members)
        ),
    )
