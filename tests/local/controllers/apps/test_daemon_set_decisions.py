"""Where the pods of a DaemonSet belong, and how they are replaced: rules as tables."""

from typing import Any

import pytest

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.local.controllers.apps.daemonset.backoff import FailedPods
from kilonova.local.controllers.apps.daemonset.desire import (
    Observed,
    Plan,
    place,
    pods_by_node,
    status_of,
    update,
)
from kilonova.local.controllers.apps.daemonset.eligibility import (
    Eligibility,
    Verdict,
    pinned_to,
    target_node,
    with_tolerations,
)
from kilonova.local.controllers.apps.objects import (
    ControllerRevision,
    DaemonSet,
    DaemonSetSpec,
    RollingUpdate,
    Share,
    Strategy,
)
from kilonova.local.controllers.apps.revisions import reckon, revision_data, template_of
from kilonova.local.controllers.nodes import imagetaint
from kilonova.local.controllers.objects import (
    Affinity,
    Node,
    NodeAffinity,
    NodeRequirement,
    NodeSelector,
    NodeSpec,
    NodeTerm,
    Pod,
    PodSpec,
    Taint,
)
from tests.local.controllers.apps.values import NOW, a_pod
from tests.local.controllers.apps.workloads import template

RUNS, STAYS, LEAVES = Verdict(True, True), Verdict(False, True), Verdict(False, False)


def a_daemon_set(
    surge: Share = 0, unavailable: Share = 1, kind: str = "RollingUpdate"
) -> DaemonSet:
    return DaemonSet(
        Metadata("agent", uid="d", resource_version="1", namespace="default", generation=1),
        DaemonSetSpec(
            template=template("agent"),
            update_strategy=Strategy(kind, RollingUpdate(surge, unavailable)),
        ),
    )


def daemon(node: str, hash_: str = "new", name: str = "", **facts: Any) -> Pod:
    labels = {"controller-revision-hash": hash_}
    return a_pod(name or f"{node}-{hash_}", node=node, labels=labels, **facts)


def seen(pods: list[Pod], daemon_set: DaemonSet | None = None, **verdicts: Verdict) -> Observed:
    nodes = verdicts or {"a": RUNS, "b": RUNS, "c": RUNS}
    return Observed(daemon_set or a_daemon_set(), nodes, pods_by_node(pods), "new", NOW)


def node(*taints: Taint, **labels: str) -> Node:
    return Node(
        Metadata("n-0", uid="n", resource_version="1", labels=labels), NodeSpec(taints=taints)
    )


AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["4"]}]},
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n-9"]}]},
            ]
        }
    }
}


@pytest.mark.parametrize(
    ("spec", "where", "expected"),
    [
        ({}, node(), RUNS),
        ({"nodeSelector": {"a": "b"}}, node(a="b"), RUNS),
        ({"nodeSelector": {"a": "b"}}, node(), LEAVES),
        ({"nodeName": "n-1"}, node(), LEAVES),
        ({"affinity": AFFINITY}, node(size="5"), RUNS),
        ({"affinity": AFFINITY}, node(size="4"), LEAVES),
        ({}, node(Taint("gpu", "NoSchedule")), STAYS),
        ({}, node(Taint("gpu", "NoExecute")), LEAVES),
        ({}, node(Taint("gpu", "PreferNoSchedule")), RUNS),
        ({}, node(Taint("node.kubernetes.io/unschedulable", "NoSchedule")), RUNS),
        ({}, node(Taint("node.kubernetes.io/not-ready", "NoExecute")), RUNS),
        ({}, node(Taint("node.kubernetes.io/network-unavailable", "NoSchedule")), STAYS),
        (
            {"hostNetwork": True},
            node(Taint("node.kubernetes.io/network-unavailable", "NoSchedule")),
            RUNS,
        ),
        (
            {"tolerations": [{"key": "gpu", "operator": "Exists"}]},
            node(Taint("gpu", "NoSchedule")),
            RUNS,
        ),
        # Admission will let pods of these templates onto a node that pulls no images.
        ({}, node(imagetaint.TAINT), STAYS),
        ({"containers": [{"name": "c", "command": ["sh"]}]}, node(imagetaint.TAINT), RUNS),
        ({"containers": [{"name": "c", "command": ["absent"]}]}, node(imagetaint.TAINT), STAYS),
        ({"nodeSelector": {"a": "b"}}, node(imagetaint.TAINT, a="b"), RUNS),
    ],
)
def test_nodes_are_judged(spec: Any, where: Node, expected: Verdict) -> None:
    assert Eligibility(template("agent", **spec), _has_only_sh).of(where) == expected


def _has_only_sh(spec: JsonObject) -> bool:
    """A machine with one program."""
    return all(each.get("command") == ["sh"] for each in imagetaint.all_containers(spec))


def test_a_pod_is_meant_for_the_node_it_is_pinned_to() -> None:
    spec = pinned_to(with_tolerations({"affinity": AFFINITY}), "n-3")
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n-3"]}]}
    unplaced = a_pod(node="")
    field = NodeRequirement("metadata.name", "In", ("n-3",))
    selector = NodeSelector((NodeTerm(match_fields=(field,)),))
    unplaced.spec = PodSpec(affinity=Affinity(NodeAffinity(selector)))
    assert target_node(unplaced) == "n-3"
    assert target_node(a_pod(node="n-1")) == "n-1"
    assert target_node(a_pod(node="")) is None


def test_each_node_gets_one_pod() -> None:
    plan = place(seen([daemon("a"), daemon("a", name="twin", age=5)]))
    assert plan.create == ["b", "c"]
    assert [pod.metadata.name for pod in plan.delete] == ["twin"]


def test_pods_leave_nodes_that_they_do_not_belong_on() -> None:
    pods = [daemon("a"), daemon("b"), daemon("c", going=True)]
    assert place(seen(pods, a=LEAVES, b=STAYS, c=LEAVES)) == Plan(delete=[pods[0]])


def test_pods_that_ended_are_replaced() -> None:
    failed = daemon("a", phase="Failed", ready=None)
    succeeded = daemon("b", phase="Succeeded", ready=None)
    plan = place(seen([failed, succeeded], a=RUNS, b=RUNS))
    assert (plan.failed, plan.succeeded, plan.create) == ([failed], [succeeded], [])


def test_a_pod_for_a_node_that_is_gone_goes() -> None:
    waiting = a_pod("waiting", node="")
    field = NodeRequirement("metadata.name", "In", ("gone",))
    waiting.spec = PodSpec(
        affinity=Affinity(NodeAffinity(NodeSelector((NodeTerm(match_fields=(field,)),))))
    )
    assert place(seen([waiting, daemon("a")], a=RUNS)).delete == [waiting]


def test_failed_pods_are_replaced_later_and_later() -> None:
    times = [0.0, 0.5, 1.0, 2.0, 3.0, 6.0]
    clock = iter(times)
    failures = FailedPods(lambda: next(clock))
    plan = Plan(failed=[daemon("a", phase="Failed")])
    waits: list[float | None] = []
    for _ in times:
        kept, wait = failures.held_back(a_daemon_set(), plan)
        assert bool(kept.failed) == (wait is None)
        waits.append(wait)
    assert waits == [None, 0.5, None, 1.0, None, 1.0]


def names(plan: Plan) -> tuple[list[str], list[str]]:
    return plan.create, [pod.metadata.name for pod in plan.delete]


@pytest.mark.parametrize(
    ("unavailable", "pods", "expected"),
    [
        (1, [daemon("a", "old"), daemon("b", "old"), daemon("c", "old")], ["a-old"]),
        (2, [daemon("a", "old"), daemon("b", "old"), daemon("c", "old")], ["a-old", "b-old"]),
        ("50%", [daemon("a", "old"), daemon("b", "old"), daemon("c", "old")], ["a-old", "b-old"]),
        (1, [daemon("a", ready=None), daemon("b", "old"), daemon("c", "old")], []),
        (1, [daemon("b", "old"), daemon("c", "old")], []),
        (1, [daemon("a"), daemon("b", "old", ready=None), daemon("c", "old")], ["b-old"]),
        (1, [daemon("a"), daemon("b"), daemon("c")], []),
    ],
)
def test_old_pods_are_replaced_as_far_as_they_can_be_missed(
    unavailable: Share, pods: list[Pod], expected: list[str]
) -> None:
    plan = update(seen(pods, a_daemon_set(unavailable=unavailable)))
    assert names(plan) == ([], expected)


def test_with_surge_new_pods_come_before_the_old_ones_go() -> None:
    surging = a_daemon_set(surge=1, unavailable=0)
    old = [daemon(each, "old") for each in "abc"]
    assert names(update(seen(old, surging))) == (["a"], [])
    coming = [*old, daemon("a", ready=None)]
    assert names(place(seen(coming, surging))) == ([], [])
    assert names(update(seen(coming, surging))) == ([], [])
    there = [*old, daemon("a")]
    assert names(place(seen(there, surging))) == ([], ["a-old"])
    assert names(update(seen(there, surging))) == (["b"], ["a-old"])


def test_the_status_counts_nodes() -> None:
    pods = [daemon("a"), daemon("b", "old", ready=None), daemon("d")]
    observed = seen(pods, a=RUNS, b=RUNS, c=RUNS, d=STAYS)
    assert status_of(observed, 0).as_json() == {
        "desiredNumberScheduled": 3,
        "currentNumberScheduled": 2,
        "numberMisscheduled": 1,
        "numberReady": 1,
        "numberAvailable": 1,
        "numberUnavailable": 2,
        "updatedNumberScheduled": 1,
        "observedGeneration": 1,
    }


def revision(number: int, image: str) -> ControllerRevision:
    known = Metadata(f"r{number}", uid=f"r{number}", resource_version="1")
    return ControllerRevision(known, number, revision_data(template(image=image)))


def test_a_template_is_the_newest_of_its_revisions() -> None:
    past = [revision(1, "img:1"), revision(2, "img:2")]
    assert reckon([], template()).number == 1
    assert reckon(past, template(image="img:3")).number == 3
    back = reckon(past, template(image="img:1"))
    assert (back.present, back.number, back.others) == (past[0], 3, (past[1],))
    same = reckon(past, template(image="img:2"))
    assert (same.present, same.number) == (past[1], 2)
    assert template_of(past[0]) == template(image="img:1")
    assert past[0].data["spec"]["template"]["$patch"] == "replace"
