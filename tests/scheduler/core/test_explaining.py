"""Why gangs wait: one sentence, and the smallest change that lets them in."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from kilonova.api import imagetaint
from kilonova.scheduler.core.asks import Shape
from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.explaining import Explainer, explain, explain_placement
from kilonova.scheduler.core.explaining.trial import Trial
from kilonova.scheduler.core.gangs import Apart, Bundle, Gang, Group, Pack, Segments
from kilonova.scheduler.core.labels import Rows
from kilonova.scheduler.core.nodes import Node, Taint
from kilonova.scheduler.core.peers import Kind, Peers, Term
from kilonova.scheduler.core.plan import NoRoom, Planner, Policy
from kilonova.scheduler.core.queues import QueueSpec
from kilonova.scheduler.core.requirements import Requirement
from kilonova.scheduler.core.rooms import Scores
from kilonova.scheduler.core.scores import Part, Scoring
from kilonova.scheduler.core.snapshot import GPU, Snapshot
from kilonova.scheduler.core.taints import NEVER_TO_TOLERATE
from tests.scheduler.core.clusters import BLOCK, RACK, gang, group, node, shape, tight
from tests.scheduler.core.refused import (
    CORDON,
    INFRA,
    POLICY,
    cluster_of,
    done,
    explained,
    job,
    racked,
)


@dataclass(frozen=True)
class Case:
    """A gang that waits in a cluster; what binds it, the smallest change, when it should start."""

    nodes: Sequence[Node]
    waiting: Gang
    binding: str
    change: str
    start: float | None = None
    running: Sequence[Gang] = ()
    queues: Sequence[QueueSpec] = ()


near = Pack(required=RACK)
HOST = "kubernetes.io/hostname"


def alone() -> Shape:
    """Pods of which there is one on each node."""
    kind = Kind(frozenset({"ns"}), (Requirement("app", "In", ("w",)),))
    return replace(shape(1), peers=Peers(apart=(Term(kind, HOST),)))


def labelled(one: Group) -> Group:
    return replace(one, members=tuple(replace(m, labels={"app": "w"}) for m in one.members))


def named(count: int) -> list[Node]:
    return [replace(node(name), labels={HOST: name}) for name in map("n{}".format, range(count))]


CASES = {
    "unknown queue": Case(
        racked(1),
        job("x", 1, queue="nope"),
        'there is no queue "nope": create it, or name another queue',
        "",
    ),
    "a gang at fault": Case(
        racked(1),
        gang("x", group("w", 1, 2)),
        "groups[w].minimum is 2: it has 1 pods: lower the minimum, or wait for the others",
        "",
    ),
    "queue limit": Case(
        racked(2),
        job("x", 3, queue="team"),
        'queue "team" may use 6.5 nvidia.com/gpu: 4 in use, 3 more asked for',
        'raise the limit to 7 nvidia.com/gpu in queue "team"',
        50.0,
        [job("a", 4, queue="team", duration=50.0)],
        [QueueSpec("team", limit={GPU: 6500})],
    ),
    "queue limit, and the less important are too young": Case(
        racked(2),
        job("x", 3, queue="team", priority=5),
        'queue "team" may use 4 nvidia.com/gpu: 4 in use, 3 more asked for; those who could make '
        "room there may not be pushed out: a (too young until 1970-01-01T00:01:00Z)",
        'raise the limit to 7 nvidia.com/gpu in queue "team"',
        60.0,
        [job("a", 4, queue="team", duration=500.0)],
        [QueueSpec("team", limit={GPU: 4000}, preempt_min_runtime=60.0)],
    ),
    "limits of two queues": Case(
        racked(2),
        job("x", 5, queue="team"),
        'queue "team" may use 2 nvidia.com/gpu: 0 in use, 5 more asked for',
        'raise the limit to 5 nvidia.com/gpu in queue "team" and 5 nvidia.com/gpu in queue "org"',
        None,
        (),
        [QueueSpec("org", limit={GPU: 2000}), QueueSpec("team", "org", limit={GPU: 2000})],
    ),
    "no node may take it": Case(
        [replace(node("a"), taints=(INFRA,)), node("b", 4)],
        job("x", 1, shape(8)),
        "no node may take a pod of group x: 1 Insufficient nvidia.com/gpu; "
        "1 node(s) had untolerated taint {dedicated: infra}",
        "tolerate dedicated=infra:NoSchedule in group x",
    ),
    "a node that pulls no images is not to be tolerated": Case(
        [replace(node("a"), taints=(Taint(imagetaint.KEY, "NoSchedule", "v"),)), node("b", 4)],
        job("x", 1, shape(8)),
        "no node may take a pod of group x: 1 Insufficient nvidia.com/gpu; "
        "1 node(s) had untolerated taint {kilonova.dev/images: v}",
        "",
    ),
    "the next taint is tolerated instead": Case(
        [
            replace(node("a"), taints=(Taint(imagetaint.KEY, "NoSchedule", "v"),)),
            replace(node("b"), taints=(Taint(imagetaint.KEY, "NoSchedule", "v"),)),
            replace(node("c"), taints=(INFRA,)),
        ],
        job("x", 1, shape(8)),
        "no node may take a pod of group x: 2 node(s) had untolerated taint "
        "{kilonova.dev/images: v}; 1 node(s) had untolerated taint {dedicated: infra}",
        "tolerate dedicated=infra:NoSchedule in group x",
    ),
    "too little room": Case(
        racked(2),
        job("x", 6),
        "group x needs room for 6 pods and there is room for 4: 2 more nvidia.com/gpu are needed",
        "free 2 nvidia.com/gpu on node n0, now used by a",
        100.0,
        [job("a", 12, duration=100.0)],
    ),
    "too little memory": Case(
        [node("a")],
        job("x", 2, replace(shape(0), requests=(("memory", 200 << 30), ("pods", 1)))),
        "group x needs room for 2 pods and there is room for 1: 200Gi more memory are needed",
        "lower the minimum of group x from 2 to 1",
    ),
    "room in pieces": Case(
        racked(2),
        job("x", 1, shape(6)),
        "6 nvidia.com/gpu are free, but in pieces too small for 6",
        "free 5 nvidia.com/gpu on node n0, now used by a",
        100.0,
        [job("a", 2, shape(5), duration=100.0)],
    ),
    "a cordoned node": Case(
        [node("a"), replace(node("b"), taints=(CORDON,))],
        job("x", 12),
        "group x needs room for 12 pods and there is room for 8: 4 more nvidia.com/gpu are needed",
        "uncordon b",
    ),
    "no rack large enough": Case(
        racked(4),
        gang("x", group("worker", 20, pack=near)),
        "no example.com/rack has room for all 20 pods of group worker: r0 has room for 16",
        "let group worker stand within one example.com/block instead of one example.com/rack",
    ),
    "a rack in use": Case(
        racked(4),
        gang("x", group("worker", 14, pack=near)),
        "no example.com/rack has room for all 14 pods of group worker: r1 has room for 13",
        "let group worker stand within one example.com/block instead of one example.com/rack",
        100.0,
        [
            replace(gang("a", group("a", 4), pack=near), duration=100.0),
            replace(
                Gang("b", (group("b", 3),), near, apart=Apart(RACK, True, ("n0",))), duration=200.0
            ),
        ],
    ),
    "no rack for the whole gang": Case(
        racked(4),
        gang("x", group("a", 10), group("b", 10), pack=near),
        "no example.com/rack has room for all 20 pods of the gang: "
        "r0 has room for each group, but not for all together",
        "let the gang stand within one example.com/block instead of one example.com/rack",
    ),
    "more where it stands": Case(
        racked(4),
        gang("x", Group("w", group("w", 20).members, 18, near, placed=("n0",))),
        "all 17 pods of group w must stand in example.com/rack r0, where some stand already: "
        "r0 has room for 16",
        "let group w stand within one example.com/block instead of one example.com/rack",
    ),
    "no node has the label": Case(
        [node("a")],
        gang("x", group("w", 2, pack=near)),
        "no example.com/rack may hold group w: no node has that label",
        "do not keep group w within one example.com/rack",
    ),
    "a bundle": Case(
        racked(4),
        Gang("x", (group("a", 10), group("b", 10)), bundles=(Bundle(("a", "b"), near),)),
        "no example.com/rack has room for all 20 pods of groups a, b: "
        "r0 has room for each group, but not for all together",
        "let groups a, b stand within one example.com/block instead of one example.com/rack",
    ),
    "not together": Case(
        racked(4),
        gang("x", group("a", 20), group("b", 20)),
        "each group has room by itself, but not all together: 40 nvidia.com/gpu asked for, 32 free",
        "lower the minimum of group a from 20 to 12",
    ),
    "segments": Case(
        racked(3, gpus=3),
        Gang("x", (Group("w", group("w", 8).members, 8, segments=Segments(4, RACK)),)),
        "2 segments of 4 pods of group w must each stand within one example.com/rack, "
        "and there is room for 1",
        "let each segment of group w stand within one example.com/block "
        "instead of one example.com/rack",
    ),
    "apart": Case(
        racked(4),
        Gang("x", (group("w", 4),), near, apart=Apart(RACK, True, ("n0", "n2"))),
        "no example.com/rack has room for it where no gang stands that it keeps apart from",
        "let the gang stand in one example.com/rack with those that it keeps apart from",
    ),
    "neighbours": Case(
        named(2),
        gang("x", labelled(group("w", 3, of=alone()))),
        "pods of group w and others have rules about each other that leave no place for all "
        "of them",
        "drop the rules of pods of group w about the pods around them",
    ),
    "repelled": Case(
        named(1),
        gang("x", labelled(group("w", 1))),
        "pods of group w and others have rules about each other: "
        "1 node(s) didn't satisfy existing pods anti-affinity rules",
        "let 1 pod of a go",
        1000.0,
        [replace(gang("a", labelled(group("a", 1, of=alone()))), duration=1000.0)],
    ),
    "too young to go": Case(
        racked(1),
        job("x", 3, queue="team", priority=5),
        "it would fit in the place of others that may not be pushed out: "
        "a (too young until 1970-01-01T00:01:40Z)",
        "free 3 nvidia.com/gpu on node n0, now used by a",
        100.0,
        [job("a", 8, queue="team")],
        [QueueSpec("team", preempt_min_runtime=100.0)],
    ),
    "not preemptible": Case(
        racked(1),
        job("x", 8, priority=5),
        "it would fit in the place of others that may not be pushed out: a (not preemptible)",
        "free 1 nvidia.com/gpu on node n0, now used by a",
        610.0,
        [job("a", 1, preemptible=False)],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_binding_constraint_and_smallest_change(case: Case) -> None:
    found = explained(cluster_of(case.nodes, case.queues, case.running), [case.waiting])
    assert found.binding.text == case.binding
    assert (found.changes[0].text if found.changes else "") == case.change
    assert found.expected_start == case.start
    assert found.message.startswith(f"{case.binding}.")
    assert len(found.message.encode()) <= 1000


def test_nodes_are_counted_by_the_first_reason_as_kube_scheduler_writes_it() -> None:
    nodes = [
        *racked(3),
        node("small", 2),
        replace(node("infra"), taints=(INFRA,)),
        replace(node("cordoned"), taints=(CORDON,)),
        replace(node("both"), taints=(Taint("other", "NoExecute"), CORDON)),
        node("slim", cpu=500),
    ]
    found = explained(cluster_of(nodes, running=[job("a", 2, shape(6))]), [job("x", 3, shape(4))])
    (tally,) = found.tallies
    assert tally.line == (
        "1/8 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint "
        "{dedicated: infra}, 1 node(s) had untolerated taint {other: }, "
        "1 node(s) were unschedulable, 3 Insufficient nvidia.com/gpu."
    )
    assert {(each.reason, each.about): each.nodes for each in tally.counts} == {
        ("Insufficient", GPU): 2,
        ("NodeTooSmall", GPU): 1,
        ("NodeTooSmall", "cpu"): 1,
        ("Taint", "dedicated=infra:NoSchedule"): 1,
        ("Taint", "other=:NoExecute"): 1,
        ("Cordoned", CORDON.key): 1,
    }
    assert tally.line in found.message


def test_a_gang_that_would_delay_a_reserved_one_may_say_that_it_is_short() -> None:
    cluster = cluster_of(racked(1), running=[job("runs", 4, duration=100.0)])
    at_once = replace(POLICY, reserve_after=0)
    large, small = job("large", 8), job("small", 4, created=1.0)
    found = explained(cluster, [large, small], 0, at_once)
    text = "it would fit, but must not delay large, which starts at 1970-01-01T00:01:40Z"
    assert found.binding.text == text
    assert found.expected_start is None
    assert found.changes[0].text == "declare a duration of at most 100s, to end before large"
    short, _ = done(found.changes[0].change, cluster, (), small, 0)
    plan = Planner(cluster, tight, at_once).decide([large, short], 0)
    assert [each.gang.name for each in plan.placements] == ["small"]


def test_who_has_a_reservation_starts_then() -> None:
    cluster = cluster_of(racked(1), running=[job("runs", 4, duration=100.0)])
    found = explained(cluster, [job("large", 8)], 0, replace(POLICY, reserve_after=0))
    assert found.expected_start == 100.0


def test_room_that_came_since_is_told() -> None:
    cluster = cluster_of(racked(1))
    found = Explainer(cluster, tight, POLICY).explain(job("x", 1), NoRoom(), 7.0)
    assert found.binding.text == "there is room for it by now: it is tried again"
    assert (found.expected_start, found.changes) == (7.0, ())


def test_pods_beyond_the_minimum_ask_for_one_more() -> None:
    cluster = cluster_of(racked(1), running=[job("a", 8, duration=60.0)])
    rest = gang("x", Group("w", group("w", 3).members, 1, placed=("n0",)))
    found = Explainer(cluster, tight, POLICY).explain(rest, NoRoom(), 0)
    assert found.binding.wanted == 1
    assert found.changes[0].text == "free 1 nvidia.com/gpu on node n0, now used by a"


def test_guarded_pods_are_named() -> None:
    cluster = Cluster()
    cluster.snapshot.put_node(node("n0"))
    low = group("low", 8)
    guarded = tuple(replace(member, budgets=("ns/pdb",)) for member in low.members)
    Planner(cluster, tight, POLICY).decide([gang("low", replace(low, members=guarded))], 0)
    cluster.budgets["ns/pdb"] = 1
    found = explained(cluster, [job("vip", 1, priority=9)])
    assert found.binding.gangs == ("low",)
    assert found.binding.text.endswith("low (guarded by a disruption budget)")


def test_an_explanation_is_json() -> None:
    for case in CASES.values():
        found = explained(cluster_of(case.nodes, case.queues, case.running), [case.waiting])
        read = json.loads(json.dumps(asdict(found)))
        assert read["binding"]["kind"] == found.binding.kind
        kinds = [each["change"]["kind"] for each in read["changes"]]
        assert kinds == [each.change.kind for each in found.changes]


def test_long_names_leave_a_message_of_a_thousand_bytes() -> None:
    queue = "q" * 2000
    found = explained(cluster_of(racked(1)), [job("x", 1, queue=queue)])
    assert len(found.message.encode()) <= 1000
    assert found.message.endswith("…")


@st.composite
def situations(
    draw: st.DrawFn,
) -> tuple[Callable[[], Cluster], tuple[QueueSpec, ...], Gang]:
    """A way to make a cluster with running gangs, its queues, and a gang that may have to wait."""
    taints = st.sampled_from([(), (), (), (CORDON,), (INFRA,)])
    nodes = [
        replace(each, taints=draw(taints))
        for each in racked(draw(st.integers(1, 6)), draw(st.integers(1, 4)))
    ]
    limit = draw(st.integers(2, 12)) * 1000
    queues = (QueueSpec("team", limit={GPU: limit}, preempt_min_runtime=60.0),)
    queue = st.sampled_from(["default", "default", "team"])
    shapes = st.sampled_from([shape(1), shape(2), shape(0, 20_000), shape(1, milli=400)])
    packs = st.sampled_from([Pack(), Pack(), Pack(RACK), Pack(BLOCK), Pack("", RACK)])
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
        segments = draw(st.sampled_from([None, None, None, Segments(2, RACK)]))
        groups.append(replace(one, pack=draw(packs), segments=segments))
    waiting = Gang(
        "x",
        tuple(groups),
        draw(packs),
        apart=draw(st.sampled_from([None, None, Apart(RACK, True, ("n0",))])),
        queue=draw(queue),
        priority=draw(st.sampled_from([0, 5])),
    )
    return lambda: cluster_of(nodes, queues, running), queues, waiting


@settings(max_examples=300)
@given(situations())
def test_every_proposed_change_lets_the_gang_in(
    situation: tuple[Callable[[], Cluster], tuple[QueueSpec, ...], Gang],
) -> None:
    make, queues, waiting = situation
    cluster = make()
    plan = Planner(cluster, tight, POLICY).plan([waiting], 10.0)
    if not plan.refusals:
        return
    before = cluster.snapshot.free.copy(), cluster.snapshot.changes.position, set(cluster.standing)
    found = explain(cluster, tight, POLICY, waiting, plan.refusals[0].why, 10.0)
    assert np.array_equal(before[0], cluster.snapshot.free)
    assert before[1:] == (cluster.snapshot.changes.position, set(cluster.standing))
    for proposal in found.changes:
        event(proposal.change.kind)
        cluster = make()
        changed, now = done(proposal.change, cluster, queues, waiting, 10.0)
        placed = Planner(cluster, tight, POLICY).decide([changed], now).placements
        assert [each.gang.name for each in placed] == ["x"], proposal.text


def test_the_cost_of_an_explanation_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, not timed: attempts to place, and pods in them, whatever the size of the gang."""
    nodes = racked(64)
    running = [job(f"r{index}", 1, shape(7)) for index in range(64)]
    seen: list[Trial] = []
    begin = Trial.begin

    def noted(trial: Trial, gang: Gang) -> None:
        begin(trial, gang)
        seen.append(trial)

    monkeypatch.setattr(Trial, "begin", noted)
    for pods in (1, 10, 100, 1000):
        for pack in (Pack(), near):
            both = gang("x", group("a", pods), group("b", pods, of=shape(8)), pack=pack)
            explained(cluster_of(nodes, running=running), [both])
    assert len(seen) == 8
    assert max(trial.trials for trial in seen) <= 100
    assert max(trial.pods for trial in seen) <= 2 * 2048


def test_points_of_a_placement_and_of_the_next_best() -> None:
    def constant(points: float) -> Callable[[Snapshot, Shape, Rows], Scores]:
        return lambda snapshot, shape, rows: np.full(len(rows), points)

    scoring = Scoring(
        [Part("tight", 3, tight), Part("even", 1, constant(20.0)), Part("odd", 1, constant(np.nan))]
    )
    cluster = Cluster()
    for name, gpus in (("a", 8), ("b", 2), ("c", 4), ("d", 0)):
        cluster.snapshot.put_node(node(name, gpus))
    plan = Planner(cluster, scoring, Policy()).decide([job("x", 1)], 0)
    found = explain_placement(cluster.snapshot, plan.placements[0].bookings[0], scoring)
    assert found.left_out == ("odd",)
    assert (found.chosen.node, found.chosen.total) == ("b", (3 * 98 + 20) / 4)
    assert [(each.part, each.points) for each in found.chosen.points] == [
        ("tight", 98.0),
        ("even", 20.0),
    ]
    assert found.runner_up is not None
    assert (found.runner_up.node, found.runner_up.total) == ("c", (3 * 96 + 20) / 4)
    assert len(cluster.snapshot.bookings) == 1


@pytest.mark.parametrize("more", [0, 3])
def test_a_gang_that_lost_its_place_is_explained_on_a_copy_from_when_it_had_one(more: int):
    """Its node went, and then it was refused; the copy is some seconds old."""
    cluster = cluster_of(racked(2), running=[job("x", 2, shape(8))])
    explainer = Explainer(cluster, tight, POLICY)
    lost = job("x", 2 + more, shape(8))
    for _ in range(2):
        found = explainer.explain(lost, NoRoom(), 10.0)
        assert found.gang == "x"
        if more:
            assert "room for 2" in found.binding.text


def test_a_guess_that_moves_with_the_clock_makes_few_messages():
    """Nobody said how long the other takes: the longer it ran, the longer it is taken to go on."""
    cluster = cluster_of(racked(1), running=[job("y", 1, shape(8))])
    messages = [
        explain(cluster, tight, POLICY, job("x", 1, shape(8)), NoRoom(), float(now)).message
        for now in range(600, 4200, 10)
    ]
    assert "Expected start: " in messages[0]
    assert len(set(messages)) < len(messages) / 20


def test_the_taint_of_nodes_that_pull_no_images_is_never_to_be_tolerated():
    assert {imagetaint.KEY} == NEVER_TO_TOLERATE
