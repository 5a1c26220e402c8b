"""Where a pod fits: rules one by one, and that nothing is ever over-committed."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.local.controllers.fitting import (
    Amounts,
    Candidate,
    Unplaceable,
    choose_node,
    pod_requests,
)
from kilonova.local.controllers.objects import Node, Pod


def node(
    name: str = "n",
    *,
    labels: dict[str, str] | None = None,
    taints: tuple[Any, ...] = (),
    cordoned: bool = False,
    ready: str = "True",
    **allocatable: str | int,
) -> Candidate:
    has = {"cpu": "4", "memory": "8Gi", "pods": "10", **allocatable}
    body = {
        "metadata": {"name": name, "uid": name, "resourceVersion": "1", "labels": labels or {}},
        "spec": {"unschedulable": cordoned, "taints": taints},
        "status": {
            "allocatable": has,
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }
    return Candidate.of(msgspec.convert(body, Node))


def pod(**spec: Any) -> Pod:
    requests = spec.pop("requests", {})
    containers = [{"name": "c", "resources": {"requests": requests}}]
    body = {
        "metadata": {"name": "p", "uid": "p", "resourceVersion": "1"},
        "spec": {"containers": containers, **spec},
    }
    return msgspec.convert(body, Pod)


def refusal(pod: Pod, *nodes: Candidate) -> str:
    chosen = choose_node(pod, nodes, {})
    assert isinstance(chosen, Unplaceable), f"placed on {chosen}"
    return str(chosen)


def required(*expressions: Any, fields: tuple[Any, ...] = ()) -> Any:
    term = {"matchExpressions": list(expressions), "matchFields": list(fields)}
    needed = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": needed}}


def expression(operator: str, *values: str, key: str = "rank") -> Any:
    return {"key": key, "operator": operator, "values": list(values)}


TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("node", "why"),
    [
        (node(cpu="1"), "Insufficient cpu"),
        (node(pods="0"), "Too many pods"),
        (node(cordoned=True), "node(s) were unschedulable"),
        (node(ready="False"), "node(s) were not ready"),
        (node(ready="Unknown"), "node(s) were not ready"),
        (node(taints=(TAINT,)), "node(s) had untolerated taint(s)"),
        (node(taints=({**TAINT, "effect": "NoExecute"},)), "node(s) had untolerated taint(s)"),
    ],
)
def test_a_node_says_why_not(node: Candidate, why: str) -> None:
    assert refusal(pod(requests={"cpu": "2"}), node) == f"0/1 nodes are available: 1 {why}."


def test_reasons_are_counted() -> None:
    nodes = [node("a", cpu="1"), node("b", cpu="1"), node("c", cordoned=True)]
    assert refusal(pod(requests={"cpu": "2"}), *nodes) == (
        "0/3 nodes are available: 2 Insufficient cpu, 1 node(s) were unschedulable."
    )
    assert refusal(pod()) == "0/0 nodes are available."


@pytest.mark.parametrize(
    "toleration",
    [
        {"operator": "Exists"},
        {"key": "gpu", "operator": "Exists"},
        {"key": "gpu", "operator": "Equal", "value": "yes"},
        {"key": "gpu", "value": "yes", "effect": "NoSchedule"},
    ],
)
def test_a_toleration_opens_a_tainted_node(toleration: Any) -> None:
    assert choose_node(pod(tolerations=[toleration]), [node(taints=(TAINT,))], {}) == "n"


@pytest.mark.parametrize(
    "toleration",
    [
        {"key": "gpu", "value": "no"},
        {"key": "other", "operator": "Exists"},
        {"key": "gpu", "value": "yes", "effect": "NoExecute"},
    ],
)
def test_another_toleration_does_not(toleration: Any) -> None:
    assert "untolerated" in refusal(pod(tolerations=[toleration]), node(taints=(TAINT,)))


def test_a_toleration_may_compare_numbers() -> None:
    tolerant = pod(tolerations=[{"key": "risk", "operator": "Lt", "value": "5"}])
    low, high = ({"key": "risk", "value": risk, "effect": "NoSchedule"} for risk in ("4", "6"))
    assert choose_node(tolerant, [node(taints=(low,))], {}) == "n"
    assert "untolerated" in refusal(tolerant, node(taints=(high,)))


def test_a_taint_that_only_prefers_keeps_nobody_out() -> None:
    assert choose_node(pod(), [node(taints=({**TAINT, "effect": "PreferNoSchedule"},))], {}) == "n"


def test_a_cordon_can_be_tolerated() -> None:
    toleration = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}
    assert choose_node(pod(tolerations=[toleration]), [node(cordoned=True)], {}) == "n"


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        (expression("In", "4", "5"), True),
        (expression("In", "6"), False),
        (expression("NotIn", "6"), True),
        (expression("NotIn", "5"), False),
        (expression("NotIn", "5", key="absent"), True),
        (expression("Exists"), True),
        (expression("Exists", key="absent"), False),
        (expression("DoesNotExist"), False),
        (expression("DoesNotExist", key="absent"), True),
        (expression("Gt", "4"), True),
        (expression("Gt", "5"), False),
        (expression("Lt", "6"), True),
        (expression("Lt", "5"), False),
        (expression("Gt", "4", key="absent"), False),
        (expression("Gt", "4", key="zone"), False),
        (expression("Gt", "many"), False),
    ],
)
def test_required_affinity_is_required(wanted: Any, fits: bool) -> None:
    candidate = node(labels={"rank": "5", "zone": "a"})
    chosen = choose_node(pod(affinity=required(wanted)), [candidate], {})
    assert (chosen == "n") is fits


def test_affinity_can_name_a_node() -> None:
    by_name = required(fields=(expression("In", "b", key="metadata.name"),))
    assert choose_node(pod(affinity=by_name), [node("a"), node("b")], {}) == "b"


def test_terms_are_alternatives_and_an_empty_one_matches_nothing() -> None:
    terms = [{}, {"matchExpressions": [expression("Exists")]}]
    needed = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    wanted = pod(affinity={"nodeAffinity": needed})
    assert choose_node(wanted, [node("a"), node("b", labels={"rank": "1"})], {}) == "b"


def test_a_node_selector_needs_every_label() -> None:
    wanted = pod(nodeSelector={"a": "1", "b": "2"})
    nodes = [node("x", labels={"a": "1"}), node("y", labels={"a": "1", "b": "2"})]
    assert choose_node(wanted, nodes, {}) == "y"


def test_the_roomiest_node_is_chosen() -> None:
    used: dict[str, Amounts] = {"a": {"cpu": 3000}, "b": {"cpu": 1000}}
    assert choose_node(pod(requests={"cpu": "1"}), [node("a"), node("b")], used) == "b"


def init(cpu: str, *, sidecar: bool = False) -> Any:
    policy = {"restartPolicy": "Always"} if sidecar else {}
    return {"name": "i", "resources": {"requests": {"cpu": cpu}}, **policy}


@pytest.mark.parametrize(
    ("spec", "milli"),
    [
        ({"requests": {"cpu": "1"}}, 1000),
        ({"requests": {"cpu": "1"}, "initContainers": [init("3")]}, 3000),
        ({"requests": {"cpu": "2"}, "initContainers": [init("1"), init("1")]}, 2000),
        ({"requests": {"cpu": "1"}, "initContainers": [init("1", sidecar=True)]}, 2000),
        ({"requests": {"cpu": "1"}, "initContainers": [init("1", sidecar=True), init("2")]}, 3000),
        ({"requests": {"cpu": "1"}, "initContainers": [init("2"), init("1", sidecar=True)]}, 2000),
        ({"requests": {"cpu": "1"}, "overhead": {"cpu": "250m"}}, 1250),
        ({"requests": {"cpu": "1"}, "resources": {"requests": {"cpu": "4"}}}, 4000),
    ],
)
def test_a_pod_asks_for_the_most_that_it_ever_needs(spec: Any, milli: int) -> None:
    assert pod_requests(pod(**spec))["cpu"] == milli


quantities = st.integers(0, 6).map(str)
pods = st.lists(
    st.builds(
        lambda cpu, memory, gpu: pod(requests={"cpu": cpu, "memory": memory, "gpu": gpu}),
        quantities,
        quantities.map(lambda text: text + "Gi"),
        quantities,
    ),
    max_size=25,
)
nodes = st.lists(
    st.tuples(quantities, quantities, quantities, st.integers(0, 5)), min_size=0, max_size=4
).map(
    lambda sizes: [
        node(f"n{number}", cpu=cpu, memory=f"{memory}Gi", gpu=gpu, pods=most)
        for number, (cpu, memory, gpu, most) in enumerate(sizes)
    ]
)


@given(nodes, pods)
def test_no_node_is_ever_over_committed(nodes: list[Candidate], pods: list[Pod]) -> None:
    used: dict[str, Amounts] = {each.node.metadata.name: {} for each in nodes}
    for each in pods:
        chosen = choose_node(each, nodes, used)
        wanted = pod_requests(each)
        if isinstance(chosen, Unplaceable):
            for candidate in nodes:
                there = used[candidate.node.metadata.name]
                assert any(
                    amount and there.get(name, 0) + amount > candidate.capacity.get(name, 0)
                    for name, amount in wanted.items()
                ), "it would have fitted"
        else:
            for name, amount in wanted.items():
                used[chosen][name] = used[chosen].get(name, 0) + amount
        for candidate in nodes:
            for name, amount in used[candidate.node.metadata.name].items():
                assert amount <= candidate.capacity.get(name, 0)
