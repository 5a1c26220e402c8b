"""Which nodes run the pods of a DaemonSet, and how pods are replaced: rules as tables."""

from typing import Any

import pytest

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.local.controllers.apps.daemonset.backoff import FailedPodBackoff
from kilonova.local.controllers.apps.daemonset.desire import (
    DaemonSetPlan,
    ObservedDaemonSet,
    compute_status,
    plan_node_pods,
    plan_rolling_update,
    pods_by_node,
)
from kilonova.local.controllers.apps.daemonset.eligibility import (
    NodeDecision,
    NodeEligibility,
    add_daemon_tolerations,
    pin_to_node,
    target_node,
)
from kilonova.local.controllers.apps.objects import (
    ControllerRevision,
    DaemonSet,
    DaemonSetSpec,
    IntOrPercent,
    RollingUpdateStrategy,
    UpdateStrategy,
)
from kilonova.local.controllers.apps.revisions import (
    build_revision_data,
    extract_template,
    match_revision,
)
from kilonova.local.objects import image_taint
from kilonova.local.objects.core import (
    Affinity,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeSpec,
    Pod,
    PodSpec,
    Taint,
)
from tests.local.controllers.apps.builders import NOW, build_pod
from tests.local.controllers.apps.manifests import template

RUNS, STAYS, LEAVES = (
    NodeDecision(True, True),
    NodeDecision(False, True),
    NodeDecision(False, False),
)


def build_daemon_set(
    surge: IntOrPercent = 0, unavailable: IntOrPercent = 1, kind: str = "RollingUpdate"
) -> DaemonSet:
    return DaemonSet(
        Metadata("agent", uid="d", resource_version="1", namespace="default", generation=1),
        DaemonSetSpec(
            template=template("agent"),
            update_strategy=UpdateStrategy(kind, RollingUpdateStrategy(surge, unavailable)),
        ),
    )


def build_daemon_pod(node: str, hash_: str = "new", name: str = "", **facts: Any) -> Pod:
    labels = {"controller-revision-hash": hash_}
    return build_pod(name or f"{node}-{hash_}", node=node, labels=labels, **facts)


def observe(
    pods: list[Pod], daemon_set: DaemonSet | None = None, **decisions: NodeDecision
) -> ObservedDaemonSet:
    nodes = decisions or {"a": RUNS, "b": RUNS, "c": RUNS}
    return ObservedDaemonSet(
        daemon_set or build_daemon_set(), nodes, pods_by_node(pods), "new", NOW
    )


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
        # Admission adds the toleration of nodes that pull no images to pods of these templates.
        ({}, node(image_taint.IMAGE_TAINT), STAYS),
        ({"containers": [{"name": "c", "command": ["sh"]}]}, node(image_taint.IMAGE_TAINT), RUNS),
        (
            {"containers": [{"name": "c", "command": ["absent"]}]},
            node(image_taint.IMAGE_TAINT),
            STAYS,
        ),
        ({"nodeSelector": {"a": "b"}}, node(image_taint.IMAGE_TAINT, a="b"), RUNS),
    ],
)
def test_node_eligibility(spec: Any, where: Node, expected: NodeDecision) -> None:
    assert NodeEligibility(template("agent", **spec), _has_only_sh).evaluate(where) == expected


def _has_only_sh(spec: JsonObject) -> bool:
    """A machine with one program."""
    return all(each.get("command") == ["sh"] for each in image_taint.all_containers(spec))


def test_target_node_is_the_pinned_node() -> None:
    spec = pin_to_node(add_daemon_tolerations({"affinity": AFFINITY}), "n-3")
    (term,) = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n-3"]}]}
    unplaced = build_pod(node="")
    field = NodeSelectorRequirement("metadata.name", "In", ("n-3",))
    selector = NodeSelector((NodeSelectorTerm(match_fields=(field,)),))
    unplaced.spec = PodSpec(affinity=Affinity(NodeAffinity(selector)))
    assert target_node(unplaced) == "n-3"
    assert target_node(build_pod(node="n-1")) == "n-1"
    assert target_node(build_pod(node="")) is None


def test_each_node_gets_one_pod() -> None:
    plan = plan_node_pods(
        observe([build_daemon_pod("a"), build_daemon_pod("a", name="twin", age=5)])
    )
    assert plan.create == ["b", "c"]
    assert [pod.metadata.name for pod in plan.delete] == ["twin"]


def test_pods_are_deleted_from_ineligible_nodes() -> None:
    pods = [build_daemon_pod("a"), build_daemon_pod("b"), build_daemon_pod("c", terminating=True)]
    assert plan_node_pods(observe(pods, a=LEAVES, b=STAYS, c=LEAVES)) == DaemonSetPlan(
        delete=[pods[0]]
    )


def test_ended_pods_are_replaced() -> None:
    failed = build_daemon_pod("a", phase="Failed", ready=None)
    succeeded = build_daemon_pod("b", phase="Succeeded", ready=None)
    plan = plan_node_pods(observe([failed, succeeded], a=RUNS, b=RUNS))
    assert (plan.failed, plan.succeeded, plan.create) == ([failed], [succeeded], [])


def test_pod_of_a_deleted_node_is_deleted() -> None:
    waiting = build_pod("waiting", node="")
    field = NodeSelectorRequirement("metadata.name", "In", ("gone",))
    waiting.spec = PodSpec(
        affinity=Affinity(NodeAffinity(NodeSelector((NodeSelectorTerm(match_fields=(field,)),))))
    )
    assert plan_node_pods(observe([waiting, build_daemon_pod("a")], a=RUNS)).delete == [waiting]


def test_failed_pods_are_replaced_with_back_off() -> None:
    times = [0.0, 0.5, 1.0, 2.0, 3.0, 6.0]
    clock = iter(times)
    failures = FailedPodBackoff(lambda: next(clock))
    plan = DaemonSetPlan(failed=[build_daemon_pod("a", phase="Failed")])
    waits: list[float | None] = []
    for _ in times:
        kept, wait = failures.hold_back_failed_pods(build_daemon_set(), plan)
        assert bool(kept.failed) == (wait is None)
        waits.append(wait)
    assert waits == [None, 0.5, None, 1.0, None, 1.0]


def names(plan: DaemonSetPlan) -> tuple[list[str], list[str]]:
    return plan.create, [pod.metadata.name for pod in plan.delete]


@pytest.mark.parametrize(
    ("unavailable", "pods", "expected"),
    [
        (
            1,
            [
                build_daemon_pod("a", "old"),
                build_daemon_pod("b", "old"),
                build_daemon_pod("c", "old"),
            ],
            ["a-old"],
        ),
        (
            2,
            [
                build_daemon_pod("a", "old"),
                build_daemon_pod("b", "old"),
                build_daemon_pod("c", "old"),
            ],
            ["a-old", "b-old"],
        ),
        (
            "50%",
            [
                build_daemon_pod("a", "old"),
                build_daemon_pod("b", "old"),
                build_daemon_pod("c", "old"),
            ],
            ["a-old", "b-old"],
        ),
        (
            1,
            [
                build_daemon_pod("a", ready=None),
                build_daemon_pod("b", "old"),
                build_daemon_pod("c", "old"),
            ],
            [],
        ),
        (1, [build_daemon_pod("b", "old"), build_daemon_pod("c", "old")], []),
        (
            1,
            [
                build_daemon_pod("a"),
                build_daemon_pod("b", "old", ready=None),
                build_daemon_pod("c", "old"),
            ],
            ["b-old"],
        ),
        (1, [build_daemon_pod("a"), build_daemon_pod("b"), build_daemon_pod("c")], []),
    ],
)
def test_old_pods_are_replaced_within_max_unavailable(
    unavailable: IntOrPercent, pods: list[Pod], expected: list[str]
) -> None:
    plan = plan_rolling_update(observe(pods, build_daemon_set(unavailable=unavailable)))
    assert names(plan) == ([], expected)


def test_with_surge_new_pods_are_created_before_old_ones_are_deleted() -> None:
    surging = build_daemon_set(surge=1, unavailable=0)
    old = [build_daemon_pod(each, "old") for each in "abc"]
    assert names(plan_rolling_update(observe(old, surging))) == (["a"], [])
    coming = [*old, build_daemon_pod("a", ready=None)]
    assert names(plan_node_pods(observe(coming, surging))) == ([], [])
    assert names(plan_rolling_update(observe(coming, surging))) == ([], [])
    there = [*old, build_daemon_pod("a")]
    assert names(plan_node_pods(observe(there, surging))) == ([], ["a-old"])
    assert names(plan_rolling_update(observe(there, surging))) == (["b"], ["a-old"])


def test_the_status_counts_nodes() -> None:
    pods = [build_daemon_pod("a"), build_daemon_pod("b", "old", ready=None), build_daemon_pod("d")]
    observed = observe(pods, a=RUNS, b=RUNS, c=RUNS, d=STAYS)
    assert compute_status(observed, 0).as_json() == {
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
    return ControllerRevision(known, number, build_revision_data(template(image=image)))


def test_current_template_is_the_newest_revision() -> None:
    past = [revision(1, "img:1"), revision(2, "img:2")]
    assert match_revision([], template()).number == 1
    assert match_revision(past, template(image="img:3")).number == 3
    back = match_revision(past, template(image="img:1"))
    assert (back.current, back.number, back.others) == (past[0], 3, (past[1],))
    same = match_revision(past, template(image="img:2"))
    assert (same.current, same.number) == (past[1], 2)
    assert extract_template(past[0]) == template(image="img:1")
    assert past[0].data["spec"]["template"]["$patch"] == "replace"
