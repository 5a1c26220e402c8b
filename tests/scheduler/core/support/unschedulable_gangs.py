"""Clusters with unschedulable gangs, and changes applied to them: for tests of explanations."""

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from kilonova.scheduler.core.explain import Change, Explanation, explain
from kilonova.scheduler.core.explain.changes.change import (
    AddNodes,
    DeclareDuration,
    FreeCapacity,
    LowerMinimum,
    RaiseLimits,
    RelaxConstraint,
    Tolerate,
    Uncordon,
    Wait,
)
from kilonova.scheduler.core.explain.placement_constraints import relax_constraint
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang, Group
from kilonova.scheduler.core.model.nodes import Node, Taint
from kilonova.scheduler.core.model.requests import Shape, Toleration
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.queueing.forest import build_queue_forest
from kilonova.scheduler.core.queueing.queues import QueueSpec
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from tests.scheduler.core.support.clusters import BLOCK, RACK, gang, group, node, tight

POLICY = PlannerPolicy((BLOCK, RACK), reserve_after=1e9)
CORDON = Taint("node.kubernetes.io/unschedulable", "NoSchedule")
INFRA = Taint("dedicated", "NoSchedule", "infra")


def job(name: str, pods: int, of: Shape | None = None, **facts: object) -> Gang:
    return replace(gang(name, group(name, pods, of=of)), **facts)


def rack_nodes(count: int, gpus: int = 8) -> list[Node]:
    """Nodes n0, n1 … two to a rack, two racks to a block."""
    return [
        node(f"n{index}", gpus, rack=f"r{index // 2}", block=f"b{index // 4}")
        for index in range(count)
    ]


def cluster_of(
    nodes: Sequence[Node], queues: Sequence[QueueSpec] = (), running: Sequence[Gang] = ()
) -> Cluster:
    """A cluster in which some gangs were placed at time 0."""
    cluster = Cluster(build_queue_forest(queues))
    for each in nodes:
        cluster.snapshot.put_node(each)
    Planner(cluster, tight, POLICY).schedule(running, 0)
    return cluster


def explain_last(
    cluster: Cluster, pending: Sequence[Gang], now: float = 10.0, policy: PlannerPolicy = POLICY
) -> Explanation:
    """Explains the last gang of a cycle."""
    plan = Planner(cluster, tight, policy).schedule(pending, now)
    unschedulable = next(each for each in plan.unschedulable if each.gang.name == pending[-1].name)
    return explain(
        cluster,
        tight,
        policy,
        unschedulable.gang,
        unschedulable.reason,
        now,
        plan.backfill_reservation,
    )


def apply_change(
    change: Change, cluster: Cluster, queues: Sequence[QueueSpec], pending: Gang, now: float
) -> tuple[Gang, float]:
    """Applies a change; returns the gang and the time afterwards."""
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
            cluster.replace_queues(build_queue_forest(raised))
        case Uncordon():
            for name in change.nodes:
                old = snapshot.node(snapshot.row(name))
                snapshot.put_node(replace(old, taints=tuple(set(old.taints) - {CORDON})))
        case Tolerate():
            pending = replace(
                pending,
                groups=tuple(
                    _with_tolerations(each, change.taints) if each.name in change.groups else each
                    for each in pending.groups
                ),
            )
        case RelaxConstraint():
            pending = relax_constraint(pending, change.constraint, change.level)
        case FreeCapacity():
            _remove_pods(cluster, change.pods)
        case LowerMinimum():
            pending = replace(
                pending,
                groups=tuple(
                    replace(each, minimum=change.minimum) if each.name == change.group else each
                    for each in pending.groups
                ),
            )
        case AddNodes():
            like = snapshot.node(snapshot.row(change.template_node))
            for number in range(change.count):
                snapshot.put_node(replace(like, name=f"added-{number}"))
        case DeclareDuration():
            pending = replace(pending, duration=float(change.seconds))
        case Wait():
            now = change.until
            if not change.by_preemption:
                ended = [cluster.running_gangs[name].pods for name in change.gangs]
                _remove_pods(cluster, [pod for pods in ended for pod in pods])
        case _:
            assert_never(change)
    return pending, now


def _with_tolerations(group: Group, taints: tuple[Taint, ...]) -> Group:
    more = tuple(Toleration(each.key, "Equal", each.value, each.effect) for each in taints)
    members = tuple(
        replace(each, shape=replace(each.shape, tolerations=(*each.shape.tolerations, *more)))
        for each in group.members
    )
    return replace(group, members=members)


def _remove_pods(cluster: Cluster, pods: Sequence[str]) -> None:
    for pod in pods:
        cluster.record_removed(cluster.snapshot.remove_pod(pod).gang, [pod])
