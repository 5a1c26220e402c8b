"""Why gangs are pending: one sentence, and the smallest change that makes them schedulable."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from kilonova.api.nodes import image_taint
from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.decisions import InsufficientCapacity
from kilonova.scheduler.core.explain import Explainer, explain, explain_placement
from kilonova.scheduler.core.explain.trial_cluster import TrialCluster
from kilonova.scheduler.core.filters.feasibility import Scores
from kilonova.scheduler.core.gpu.layout import Gpu, GpuLayout
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import (
    Gang,
    GangAntiAffinity,
    Group,
    GroupBundle,
    PackConstraint,
    SegmentConstraint,
)
from kilonova.scheduler.core.model.label_columns import Rows
from kilonova.scheduler.core.model.nodes import Node, Taint
from kilonova.scheduler.core.model.pod_affinity import AffinityTerm, PodAffinityRules, PodSelector
from kilonova.scheduler.core.model.requests import GpuPreference, GpuRequest, Shape
from kilonova.scheduler.core.model.requirements import Requirement
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.model.taints import FORBIDDEN_TOLERATION_KEYS
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.queueing.queues import QueueSpec
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from kilonova.scheduler.core.scoring.plugins import ScorePlugin, Scoring
from tests.harness.campaigns import limit_examples
from tests.scheduler.core.support.clusters import BLOCK, RACK, gang, group, node, shape, tight
from tests.scheduler.core.support.random_clusters import shape_of
from tests.scheduler.core.support.unschedulable_gangs import (
    CORDON,
    INFRA,
    POLICY,
    apply_change,
    cluster_of,
    explain_last,
    job,
    rack_nodes,
)


@dataclass(frozen=True)
class Case:
    """A pending gang in a cluster; its blocking constraint, the smallest change, its expected
    start."""

    nodes: Sequence[Node]
    waiting: Gang
    blocking: str
    change: str
    start: float | None = None
    running: Sequence[Gang] = ()
    queues: Sequence[QueueSpec] = ()


near = PackConstraint(required=RACK)
HOST = "kubernetes.io/hostname"


def spread_shape() -> Shape:
    """Pods with at most one per node."""
    kind = PodSelector(frozenset({"ns"}), (Requirement("app", "In", ("w",)),))
    return replace(shape(1), pod_rules=PodAffinityRules(anti_affinity=(AffinityTerm(kind, HOST),)))


def labelled(one: Group) -> Group:
    return replace(one, members=tuple(replace(m, labels={"app": "w"}) for m in one.members))


def named(count: int) -> list[Node]:
    return [replace(node(name), labels={HOST: name}) for name in map("n{}".format, range(count))]


CASES = {
    "unknown queue": Case(
        rack_nodes(1),
        job("x", 1, queue="nope"),
        'there is no queue "nope": create it, or name another queue',
        "",
    ),
    "invalid gang": Case(
        rack_nodes(1),
        gang("x", group("w", 1, 2)),
        "groups[w].minimum is 2: it has 1 pods: lower the minimum, or wait for the other pods",
        "",
    ),
    "queue limit": Case(
        rack_nodes(2),
        job("x", 3, queue="team"),
        'queue "team" may use 6.5 nvidia.com/gpu: 4 in use, 3 more requested',
        'raise the limit to 7 nvidia.com/gpu in queue "team"',
        50.0,
        [job("a", 4, queue="team", duration=50.0)],
        [QueueSpec("team", limit={GPU: 6500})],
    ),
    "queue limit, lower priority gangs within minimum run time": Case(
        rack_nodes(2),
        job("x", 3, queue="team", priority=5),
        'queue "team" may use 4 nvidia.com/gpu: 4 in use, 3 more requested; victims that free '
        "capacity there are protected: a (protected until 1970-01-01T00:01:00Z)",
        'raise the limit to 7 nvidia.com/gpu in queue "team"',
        60.0,
        [job("a", 4, queue="team", duration=500.0)],
        [QueueSpec("team", limit={GPU: 4000}, preempt_min_runtime=60.0)],
    ),
    "limits of two queues": Case(
        rack_nodes(2),
        job("x", 5, queue="team"),
        'queue "team" may use 2 nvidia.com/gpu: 0 in use, 5 more requested',
        'raise the limit to 5 nvidia.com/gpu in queue "team" and 5 nvidia.com/gpu in queue "org"',
        None,
        (),
        [QueueSpec("org", limit={GPU: 2000}), QueueSpec("team", "org", limit={GPU: 2000})],
    ),
    "no matching node": Case(
        [replace(node("a"), taints=(INFRA,)), node("b", 4)],
        job("x", 1, shape(8)),
        "no node is feasible for a pod of group x: 1 Insufficient nvidia.com/gpu; "
        "1 node(s) had untolerated taint {dedicated: infra}",
        "tolerate dedicated=infra:NoSchedule in group x",
    ),
    "image pull taint is not tolerated": Case(
        [replace(node("a"), taints=(Taint(image_taint.KEY, "NoSchedule", "v"),)), node("b", 4)],
        job("x", 1, shape(8)),
        "no node is feasible for a pod of group x: 1 Insufficient nvidia.com/gpu; "
        "1 node(s) had untolerated taint {kilonova.dev/images: v}",
        "",
    ),
    "next taint is tolerated instead": Case(
        [
            replace(node("a"), taints=(Taint(image_taint.KEY, "NoSchedule", "v"),)),
            replace(node("b"), taints=(Taint(image_taint.KEY, "NoSchedule", "v"),)),
            replace(node("c"), taints=(INFRA,)),
        ],
        job("x", 1, shape(8)),
        "no node is feasible for a pod of group x: 2 node(s) had untolerated taint "
        "{kilonova.dev/images: v}; 1 node(s) had untolerated taint {dedicated: infra}",
        "tolerate dedicated=infra:NoSchedule in group x",
    ),
    "insufficient capacity": Case(
        rack_nodes(2),
        job("x", 6),
        "group x needs 6 pods, but only 4 fit: 2 more nvidia.com/gpu are needed",
        "free 2 nvidia.com/gpu on node n0, now used by a",
        100.0,
        [job("a", 12, duration=100.0)],
    ),
    "insufficient memory": Case(
        [node("a")],
        job("x", 2, replace(shape(0), requests=(("memory", 200 << 30), ("pods", 1)))),
        "group x needs 2 pods, but only 1 fit: 200Gi more memory are needed",
        "lower the minimum of group x from 2 to 1",
    ),
    "fragmented capacity": Case(
        rack_nodes(2),
        job("x", 1, shape(6)),
        "6 nvidia.com/gpu are free, but too fragmented for 6",
        "free 5 nvidia.com/gpu on node n0, now used by a",
        100.0,
        [job("a", 2, shape(5), duration=100.0)],
    ),
    "cordoned node": Case(
        [node("a"), replace(node("b"), taints=(CORDON,))],
        job("x", 12),
        "group x needs 12 pods, but only 8 fit: 4 more nvidia.com/gpu are needed",
        "uncordon b",
    ),
    "no rack large enough": Case(
        rack_nodes(4),
        gang("x", group("worker", 20, pack=near)),
        "no example.com/rack has capacity for all 20 pods of group worker: r0 has capacity for 16",
        "let group worker span one example.com/block instead of one example.com/rack",
    ),
    "rack in use": Case(
        rack_nodes(4),
        gang("x", group("worker", 14, pack=near)),
        "no example.com/rack has capacity for all 14 pods of group worker: r1 has capacity for 13",
        "let group worker span one example.com/block instead of one example.com/rack",
        100.0,
        [
            replace(gang("a", group("a", 4), pack=near), duration=100.0),
            replace(
                Gang(
                    "b", (group("b", 3),), near, anti_affinity=GangAntiAffinity(RACK, True, ("n0",))
                ),
                duration=200.0,
            ),
        ],
    ),
    "no rack for the whole gang": Case(
        rack_nodes(4),
        gang("x", group("a", 10), group("b", 10), pack=near),
        "no example.com/rack has capacity for all 20 pods of the gang: "
        "r0 has capacity for each group, but not for all together",
        "let the gang span one example.com/block instead of one example.com/rack",
    ),
    "more pods in the domain of placed ones": Case(
        rack_nodes(4),
        gang("x", Group("w", group("w", 20).members, 18, near, placed_nodes=("n0",))),
        "all 17 pods of group w must be placed in example.com/rack r0, where some are placed: "
        "r0 has capacity for 16",
        "let group w span one example.com/block instead of one example.com/rack",
    ),
    "no node has the label": Case(
        [node("a")],
        gang("x", group("w", 2, pack=near)),
        "no example.com/rack can hold group w: no node has that label",
        "do not require group w within one example.com/rack",
    ),
    "bundle": Case(
        rack_nodes(4),
        Gang("x", (group("a", 10), group("b", 10)), bundles=(GroupBundle(("a", "b"), near),)),
        "no example.com/rack has capacity for all 20 pods of groups a, b: "
        "r0 has capacity for each group, but not for all together",
        "let groups a, b span one example.com/block instead of one example.com/rack",
    ),
    "insufficient combined capacity": Case(
        rack_nodes(4),
        gang("x", group("a", 20), group("b", 20)),
        "each group fits by itself, but not all together: 40 nvidia.com/gpu requested, 32 free",
        "lower the minimum of group a from 20 to 12",
    ),
    "segments": Case(
        rack_nodes(3, gpus=3),
        Gang("x", (Group("w", group("w", 8).members, 8, segments=SegmentConstraint(4, RACK)),)),
        "2 segments of 4 pods of group w must each fit within one example.com/rack, "
        "and there is capacity for 1",
        "let each segment of group w span one example.com/block instead of one example.com/rack",
    ),
    "gang anti-affinity": Case(
        rack_nodes(4),
        Gang("x", (group("w", 4),), near, anti_affinity=GangAntiAffinity(RACK, True, ("n0", "n2"))),
        "no example.com/rack has capacity for it without gangs of its anti-affinity",
        "relax the gang anti-affinity of the gang at level example.com/rack",
    ),
    "pod affinity": Case(
        named(2),
        gang("x", labelled(group("w", 3, of=spread_shape()))),
        "pods of group w and others have conflicting affinity rules that leave no node for all "
        "of them",
        "remove the pod affinity and topology spread constraints of pods of group w",
    ),
    "existing pod anti-affinity": Case(
        named(1),
        gang("x", labelled(group("w", 1))),
        "pods of group w and others have conflicting affinity rules: "
        "1 node(s) didn't satisfy existing pods anti-affinity rules",
        "evict 1 pod of a",
        1000.0,
        [replace(gang("a", labelled(group("a", 1, of=spread_shape()))), duration=1000.0)],
    ),
    "within minimum run time": Case(
        rack_nodes(1),
        job("x", 3, queue="team", priority=5),
        "it would fit by preempting gangs that are protected: "
        "a (protected until 1970-01-01T00:01:40Z)",
        "free 3 nvidia.com/gpu on node n0, now used by a",
        100.0,
        [job("a", 8, queue="team")],
        [QueueSpec("team", preempt_min_runtime=100.0)],
    ),
    "not preemptible": Case(
        rack_nodes(1),
        job("x", 8, priority=5),
        "it would fit by preempting gangs that are protected: a (not preemptible)",
        "free 1 nvidia.com/gpu on node n0, now used by a",
        610.0,
        [job("a", 1, preemptible=False)],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_blocking_constraint_and_smallest_change(case: Case) -> None:
    found = explain_last(cluster_of(case.nodes, case.queues, case.running), [case.waiting])
    assert found.blocking_constraint.text == case.blocking
    assert (found.changes[0].text if found.changes else "") == case.change
    assert found.expected_start == case.start
    assert found.message.startswith(f"{case.blocking}.")
    assert len(found.message.encode()) <= 1000


def test_nodes_are_counted_by_first_reason_in_kube_scheduler_format() -> None:
    nodes = [
        *rack_nodes(3),
        node("small", 2),
        replace(node("infra"), taints=(INFRA,)),
        replace(node("cordoned"), taints=(CORDON,)),
        replace(node("both"), taints=(Taint("other", "NoExecute"), CORDON)),
        node("slim", cpu=500),
    ]
    found = explain_last(
        cluster_of(nodes, running=[job("a", 2, shape(6))]), [job("x", 3, shape(4))]
    )
    (tally,) = found.diagnoses
    assert tally.summary == (
        "1/8 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint "
        "{dedicated: infra}, 1 node(s) had untolerated taint {other: }, "
        "1 node(s) were unschedulable, 3 Insufficient nvidia.com/gpu."
    )
    assert {(each.reason, each.subject): each.nodes for each in tally.counts} == {
        ("Insufficient", GPU): 2,
        ("NodeTooSmall", GPU): 1,
        ("NodeTooSmall", "cpu"): 1,
        ("Taint", "dedicated=infra:NoSchedule"): 1,
        ("Taint", "other=:NoExecute"): 1,
        ("Cordoned", CORDON.key): 1,
    }
    assert tally.summary in found.message


@pytest.mark.parametrize(
    ("requested", "needed", "has_unconnected"),
    [
        (
            GpuRequest(4, preference=GpuPreference.NVLINK_REQUIRED),
            "GPUs that are connected well enough for 3 more pods are needed",
            True,
        ),
        (
            GpuRequest(2, bandwidth=500),
            "GPUs that are connected well enough for 3 more pods are needed",
            True,
        ),
        (
            GpuRequest(2, preference=GpuPreference.NVLINK_REQUIRED),
            "2 more nvidia.com/gpu are needed",
            False,
        ),
    ],
    ids=("NVLink", "bandwidth", "pairs"),
)
def test_gpus_that_are_not_connected_are_told_from_missing_ones(
    requested: GpuRequest, needed: str, has_unconnected: bool
) -> None:
    layout = GpuLayout(tuple(map(Gpu, range(4))), ((0, 1, 300), (2, 3, 300)))
    pairs, single = replace(node("pairs", 4), layout=layout), node("single", 1)
    found = explain_last(cluster_of([pairs, single]), [job("w", 3, shape_of(0, requested))])
    assert needed in found.message
    texts = [each.text for each in found.diagnoses[0].counts]
    text = "node(s) had too few GPUs that are connected well enough"
    assert (text in texts) == has_unconnected
    assert "Insufficient nvidia.com/gpu" in texts


def test_gang_that_would_delay_reservation_may_declare_duration() -> None:
    cluster = cluster_of(rack_nodes(1), running=[job("runs", 4, duration=100.0)])
    at_once = replace(POLICY, reserve_after=0)
    large, small = job("large", 8), job("small", 4, created=1.0)
    found = explain_last(cluster, [large, small], 0, at_once)
    text = "it would fit, but must not delay large, which starts at 1970-01-01T00:01:40Z"
    assert found.blocking_constraint.text == text
    assert found.expected_start is None
    assert found.changes[0].text == "declare a duration of at most 100s, to end before large"
    short, _ = apply_change(found.changes[0].change, cluster, (), small, 0)
    plan = Planner(cluster, tight, at_once).schedule([large, short], 0)
    assert [each.gang.name for each in plan.placements] == ["small"]


def test_reserved_gang_starts_at_its_reservation() -> None:
    cluster = cluster_of(rack_nodes(1), running=[job("runs", 4, duration=100.0)])
    found = explain_last(cluster, [job("large", 8)], 0, replace(POLICY, reserve_after=0))
    assert found.expected_start == 100.0


def test_capacity_freed_since_rejection_is_reported() -> None:
    cluster = cluster_of(rack_nodes(1))
    found = Explainer(cluster, tight, POLICY).explain(job("x", 1), InsufficientCapacity(), 7.0)
    assert found.blocking_constraint.text == "capacity is available now: it will be retried"
    assert (found.expected_start, found.changes) == (7.0, ())


def test_surplus_pods_request_one_more() -> None:
    cluster = cluster_of(rack_nodes(1), running=[job("a", 8, duration=60.0)])
    rest = gang("x", Group("w", group("w", 3).members, 1, placed_nodes=("n0",)))
    found = Explainer(cluster, tight, POLICY).explain(rest, InsufficientCapacity(), 0)
    assert found.blocking_constraint.requested == 1
    assert found.changes[0].text == "free 1 nvidia.com/gpu on node n0, now used by a"


def test_pods_under_disruption_budget_are_named() -> None:
    cluster = Cluster()
    cluster.snapshot.put_node(node("n0"))
    low = group("low", 8)
    guarded = tuple(replace(member, budgets=("ns/pdb",)) for member in low.members)
    Planner(cluster, tight, POLICY).schedule([gang("low", replace(low, members=guarded))], 0)
    cluster.budgets["ns/pdb"] = 1
    found = explain_last(cluster, [job("vip", 1, priority=9)])
    assert found.blocking_constraint.gangs == ("low",)
    assert found.blocking_constraint.text.endswith("low (protected by a disruption budget)")


def test_explanation_is_json() -> None:
    for case in CASES.values():
        found = explain_last(cluster_of(case.nodes, case.queues, case.running), [case.waiting])
        read = json.loads(json.dumps(asdict(found)))
        assert read["blocking_constraint"]["kind"] == found.blocking_constraint.kind
        kinds = [each["change"]["kind"] for each in read["changes"]]
        assert kinds == [each.change.kind for each in found.changes]


def test_message_is_limited_to_a_thousand_bytes() -> None:
    queue = "q" * 2000
    found = explain_last(cluster_of(rack_nodes(1)), [job("x", 1, queue=queue)])
    assert len(found.message.encode()) <= 1000
    assert found.message.endswith("…")


@st.composite
def pending_situations(
    draw: st.DrawFn,
) -> tuple[Callable[[], Cluster], tuple[QueueSpec, ...], Gang]:
    """A builder of a cluster with running gangs, its queues, and a gang that may be pending."""
    taints = st.sampled_from([(), (), (), (CORDON,), (INFRA,)])
    nodes = [
        replace(each, taints=draw(taints))
        for each in rack_nodes(draw(st.integers(1, 6)), draw(st.integers(1, 4)))
    ]
    limit = draw(st.integers(2, 12)) * 1000
    queues = (QueueSpec("team", limit={GPU: limit}, preempt_min_runtime=60.0),)
    queue = st.sampled_from(["default", "default", "team"])
    shapes = st.sampled_from([shape(1), shape(2), shape(0, 20_000), shape(1, milli=400)])
    packs = st.sampled_from(
        [
            PackConstraint(),
            PackConstraint(),
            PackConstraint(RACK),
            PackConstraint(BLOCK),
            PackConstraint("", RACK),
        ]
    )
    running = [
        replace(
            gang(f"r{index}", group(f"r{index}", draw(st.integers(1, 4)), of=draw(shapes))),
            queue=draw(queue),
            duration=draw(st.sampled_from([None, 50.0, 500.0])),
        )
        for index in range(draw(st.integers(0, 5)))
    ]
    groups: list[Group] = []
    for index in range(draw(st.integers(1, 2))):
        count = draw(st.integers(1, 8))
        one = group(f"w{index}", count, draw(st.integers(0, count)), of=draw(shapes))
        segments = draw(st.sampled_from([None, None, None, SegmentConstraint(2, RACK)]))
        groups.append(replace(one, pack=draw(packs), segments=segments))
    pending = Gang(
        "x",
        tuple(groups),
        draw(packs),
        anti_affinity=draw(st.sampled_from([None, None, GangAntiAffinity(RACK, True, ("n0",))])),
        queue=draw(queue),
        priority=draw(st.sampled_from([0, 5])),
    )
    return lambda: cluster_of(nodes, queues, running), queues, pending


@settings(max_examples=limit_examples(300))
@given(pending_situations())
def test_every_proposed_change_makes_the_gang_schedulable(
    situation: tuple[Callable[[], Cluster], tuple[QueueSpec, ...], Gang],
) -> None:
    make, queues, pending = situation
    cluster = make()
    plan = Planner(cluster, tight, POLICY).plan([pending], 10.0)
    if not plan.unschedulable:
        return
    before = (
        cluster.snapshot.free.copy(),
        cluster.snapshot.changes.position,
        set(cluster.running_gangs),
    )
    found = explain(cluster, tight, POLICY, pending, plan.unschedulable[0].reason, 10.0)
    assert np.array_equal(before[0], cluster.snapshot.free)
    assert before[1:] == (cluster.snapshot.changes.position, set(cluster.running_gangs))
    for proposal in found.changes:
        event(proposal.change.kind)
        cluster = make()
        changed, now = apply_change(proposal.change, cluster, queues, pending, 10.0)
        placed = Planner(cluster, tight, POLICY).schedule([changed], now).placements
        assert [each.gang.name for each in placed] == ["x"], proposal.text


def test_cost_of_explanation_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, not timed: attempts to place, and pods in them, whatever the size of the gang."""
    nodes = rack_nodes(64)
    running = [job(f"r{index}", 1, shape(7)) for index in range(64)]
    seen: list[TrialCluster] = []
    begin = TrialCluster.begin

    def noted(trial: TrialCluster, gang: Gang) -> None:
        begin(trial, gang)
        seen.append(trial)

    monkeypatch.setattr(TrialCluster, "begin", noted)
    for pods in (1, 10, 100, 1000):
        for pack in (PackConstraint(), near):
            both = gang("x", group("a", pods), group("b", pods, of=shape(8)), pack=pack)
            explain_last(cluster_of(nodes, running=running), [both])
    assert len(seen) == 8
    assert max(trial.attempts for trial in seen) <= 100
    assert max(trial.placed_pods for trial in seen) <= 2 * 2048


def test_plugin_scores_of_chosen_node_and_runner_up() -> None:
    def constant(points: float) -> Callable[[Snapshot, Shape, Rows], Scores]:
        return lambda snapshot, shape, rows: np.full(len(rows), points)

    scoring = Scoring(
        [
            ScorePlugin("tight", 3, tight),
            ScorePlugin("even", 1, constant(20.0)),
            ScorePlugin("odd", 1, constant(np.nan)),
        ]
    )
    cluster = Cluster()
    for name, gpus in (("a", 8), ("b", 2), ("c", 4), ("d", 0)):
        cluster.snapshot.put_node(node(name, gpus))
    plan = Planner(cluster, scoring, PlannerPolicy()).schedule([job("x", 1)], 0)
    found = explain_placement(cluster.snapshot, plan.placements[0].pods[0], scoring)
    assert found.failed_plugins == ("odd",)
    assert (found.chosen.node, found.chosen.total) == ("b", (3 * 98 + 20) / 4)
    assert [(each.plugin, each.score) for each in found.chosen.plugin_scores] == [
        ("tight", 98.0),
        ("even", 20.0),
    ]
    assert found.runner_up is not None
    assert (found.runner_up.node, found.runner_up.total) == ("c", (3 * 96 + 20) / 4)
    assert len(cluster.snapshot.placements) == 1


@pytest.mark.parametrize("more", [0, 3])
def test_gang_removed_since_the_copy_is_explained(more: int):
    """Its node was removed, and then it was unschedulable; the copy is some seconds old."""
    cluster = cluster_of(rack_nodes(2), running=[job("x", 2, shape(8))])
    explainer = Explainer(cluster, tight, POLICY)
    lost = job("x", 2 + more, shape(8))
    for _ in range(2):
        found = explainer.explain(lost, InsufficientCapacity(), 10.0)
        assert found.gang == "x"
        if more:
            assert "only 2 fit" in found.blocking_constraint.text


def test_expected_start_is_rounded_to_limit_message_changes():
    """The duration of the running gang is unknown: its expected end moves with the clock."""
    cluster = cluster_of(rack_nodes(1), running=[job("y", 1, shape(8))])
    messages = [
        explain(
            cluster, tight, POLICY, job("x", 1, shape(8)), InsufficientCapacity(), float(now)
        ).message
        for now in range(600, 4200, 10)
    ]
    assert "Expected start: " in messages[0]
    assert len(set(messages)) < len(messages) / 20


def test_image_pull_taint_is_never_proposed_for_toleration():
    assert {image_taint.KEY} == FORBIDDEN_TOLERATION_KEYS
