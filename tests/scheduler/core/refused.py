"""Clusters in which gangs wait, and changes done to them: for tests of explanations."""

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from kilonova.scheduler.core.asks import Shape, Toleration
from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.explaining import Change, Explanation, explain
from kilonova.scheduler.core.explaining.changes import (
    AddNodes,
    DeclareDuration,
    Free,
    Loosen,
    LowerMinimum,
    RaiseLimits,
    Tolerate,
    Uncordon,
    Wait,
)
from kilonova.scheduler.core.explaining.constraints import loosened
from kilonova.scheduler.core.forest import forest_of
from kilonova.scheduler.core.gangs import Gang, Group
from kilonova.scheduler.core.nodes import Node, Taint
from kilonova.scheduler.core.plan import Planner, Policy
from kilonova.scheduler.core.queues import QueueSpec
from tests.scheduler.core.clusters import BLOCK, RACK, gang, group, node, tight

POLICY = Policy((BLOCK, RACK), reserve_after=1e9)
CORDON = Taint("node.kubernetes.io/unschedulable", "NoSchedule")
INFRA = Taint("dedicated", "NoSchedule", "infra")


def job(name: str, pods: int, of: Shape | None = None, **facts: object) -> Gang:
    return replace(gang(name, group(name, pods, of=of)), **facts)


def racked(count: int, gpus: int = 8) -> list[Node]:
    """Nodes n0, n1 … two to a rack, two racks to a block."""
    return [
        node(f"n{index}", gpus, rack=f"r{index // 2}", block=f"b{index // 4}")
        for index in range(count)
    ]


def cluster_of(
    nodes: Sequence[Node], queues: Sequence[QueueSpec] = (), running: Sequence[Gang] = ()
) -> Cluster:
    """A cluster in which some gangs got their place at 0."""
    cluster = Cluster(forest_of(queues))
    for each in nodes:
        cluster.snapshot.put_node(each)
    Planner(cluster, tight, POLICY).decide(running, 0)
    return cluster


def explained(
    cluster: Cluster, waiting: Sequence[Gang], now: float = 10.0, policy: Policy = POLICY
) -> Explanation:
    """Why the last gang of a round has to wait."""
    plan = Planner(cluster, tight, policy).decide(waiting, now)
    refusal = next(each for each in plan.refusals if each.gang.name == waiting[-1].name)
    return explain(cluster, tight, policy, refusal.gang, refusal.why, now, plan.reservation)


def done(
    change: Change, cluster: Cluster, queues: Sequence[QueueSpec], waiting: Gang, now: float
) -> tuple[Gang, float]:
    """Does what a change says; gives the gang and the time as they are then."""
    snapshot = cluster.snapshot
    match change:
        case RaiseLimits():
            limits = {(each.queue, each.resource): each.limit for each in change.limits}
            raised = [
                replace(
                    spec,
                    limit={
                        name: limits.get((spec.name, name), old) for name, old in spec.limit.items()
                    },
                )
                for spec in queues
            ]
            cluster.replace_queues(forest_of(raised))
        case Uncordon():
            for name in change.nodes:
                old = snapshot.node(snapshot.row(name))
                snapshot.put_node(replace(old, taints=tuple(set(old.taints) - {CORDON})))
        case Tolerate():
            waiting = replace(
                waiting,
                groups=tuple(
                    _tolerant(each, change.taints) if each.name in change.groups else each
                    for each in waiting.groups
                ),
            )
        case Loosen():
            waiting = loosened(waiting, change.constraint, change.level)
        case Free():
            _end(cluster, change.pods)
        case LowerMinimum():
            waiting = replace(
                waiting,
                groups=tuple(
                    replace(each, minimum=change.minimum) if each.name == change.group else each
                    for each in waiting.groups
                ),
            )
        case AddNodes():
            like = snapshot.node(snapshot.row(change.like))
            for number in range(change.count):
                snapshot.put_node(replace(like, name=f"added-{number}"))
        case DeclareDuration():
            waiting = replace(waiting, duration=float(change.seconds))
        case Wait():
            now = change.until
            if not change.pushed_out:
                ended = [cluster.standing[name].pods for name in change.gangs]
                _end(cluster, [pod for pods in ended for pod in pods])
        case _:
            assert_never(change)
    return waiting, now


def _tolerant(group: Group, taints: tuple[Taint, ...]) -> Group:
    more = tuple(Toleration(each.key, "Equal", each.value, each.effect) for each in taints)
    members = tuple(
        replace(each, shape=replace(each.shape, tolerations=(*each.shape.tolerations, *more)))
        for each in group.members
    )
    return replace(group, members=members)


def _end(cluster: Cluster, pods: Sequence[str]) -> None:
    for pod in pods:
        cluster.leave(cluster.snapshot.release(pod).gang, [pod])
