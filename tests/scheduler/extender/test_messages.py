"""The messages of the extender protocol: field names, case, complete nodes, errors."""

import json
from collections.abc import Callable

import msgspec
import pytest

from tests.scheduler.extender.extender_fixture import ExtenderScenario, node, pod


async def test_filter_result_has_capitalised_fields() -> None:
    scenario = ExtenderScenario(node("a", 2), node("b", 0))
    answer = await scenario.filter(pod("p", 1), "a", "b")
    assert answer == {
        "Nodes": None,
        "NodeNames": ["a"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {"b": "node(s) had fewer than 1 nvidia.com/gpu"},
        "Error": "",
    }


async def test_filter_returns_complete_nodes_as_received() -> None:
    scenario = ExtenderScenario(node("a", 2), node("b", 0))
    whole = [{**node(name), "further": {"fields": [1.50, None]}} for name in ("a", "b")]
    answer = await scenario.call_verb("filter", {"Pod": pod("p"), "Nodes": {"items": whole}})
    assert answer["Nodes"]["items"] == whole[:1]
    assert answer["NodeNames"] is None
    assert list(answer["FailedAndUnresolvableNodes"]) == ["b"]


@pytest.mark.parametrize("change", [str.lower, str.upper, str.title, str.swapcase])
async def test_fields_are_read_case_insensitively(change: Callable[[str], str]) -> None:
    scenario = ExtenderScenario(node("a", 2))
    scenario.add_pods(pod("victim", 2, node="a", devices="0,1"), pod("q"))
    answer = await scenario.call_verb(
        "filter", {change("Pod"): pod("p", 1), change("NodeNames"): ["a"]}
    )
    assert answer["FailedNodes"] == {"a": "Insufficient nvidia.com/gpu"}
    victims = {
        change("Pods"): [{change("UID"): "uid-victim"}],
        change("NumPDBViolations"): 1,
    }
    answer = await scenario.call_verb(
        "preempt", {change("Pod"): pod("p", 1), change("NodeNameToMetaVictims"): {"a": victims}}
    )
    assert answer == {
        "NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "uid-victim"}], "NumPDBViolations": 1}}
    }
    bound = {"PodName": "q", "PodNamespace": "default", "PodUID": "uid-q", "Node": "a"}
    answer = await scenario.call_verb(
        "bind", {change(name): value for name, value in bound.items()}
    )
    assert "Insufficient nvidia.com/gpu" in answer["Error"]


async def test_prioritize_scores_every_node_from_0_to_10() -> None:
    scenario = ExtenderScenario(node("empty", 8), node("tight", 8), node("full", 1))
    scenario.add_pods(
        pod("a", 6, node="tight", devices="0,1,2,3,4,5"), pod("b", node="full", devices="0")
    )
    names = ["empty", "tight", "full", "unheard-of"]
    answer = await scenario.call_verb("prioritize", {"Pod": pod("p", 2), "NodeNames": names})
    assert [each["Host"] for each in answer] == names
    levels = {each["Host"]: each["Score"] for each in answer}
    assert levels["tight"] == 10 > levels["empty"] > 0
    assert levels["full"] == levels["unheard-of"] == 0


MALFORMED = {
    "no JSON": (b"{", "the body"),
    "not an object": (b"[]", "the body"),
    "empty body": (b"", "the body"),
    "no pod": (b'{"NodeNames":["a"]}', "Pod: missing"),
    "null pod": (b'{"Pod":null,"NodeNames":["a"]}', "Pod: missing"),
    "pod without a name": (b'{"Pod":{"metadata":{}},"NodeNames":["a"]}', "`name`"),
    "no nodes": (b'{"Pod":{"metadata":{"name":"p"}}}', "neither NodeNames nor Nodes"),
    "invalid names": (b'{"Pod":{"metadata":{"name":"p"}},"NodeNames":[1]}', "NodeNames"),
    "node without a name": (
        b'{"Pod":{"metadata":{"name":"p"}},"Nodes":{"items":[{}]}}',
        "Nodes.items[0]",
    ),
    "too deeply nested": (b'{"Pod":' + b"[" * 20_000 + b"}", "the body"),
    "invalid UTF-8": (b'{"Pod":{"metadata":{"name":"\xff"}},"NodeNames":[]}', "Pod"),
}


@pytest.mark.parametrize("case", MALFORMED)
@pytest.mark.parametrize("verb", ["filter", "prioritize"])
async def test_malformed_message_is_answered_with_the_problem(verb: str, case: str) -> None:
    body, problem = MALFORMED[case]
    reply = await ExtenderScenario(node("a")).send("POST", f"/{verb}", body)
    assert reply.status == 400
    assert problem in json.loads(reply.body)["Error"]


@pytest.mark.parametrize(
    ("verb", "body", "problem"),
    [
        ("bind", {"PodName": "p"}, "PodNamespace, Node: missing or empty"),
        ("bind", {"PodName": 1, "PodNamespace": "d", "Node": "a"}, "PodName"),
        ("preempt", {"Pod": pod("p")}, "neither NodeNameToMetaVictims nor NodeNameToVictims"),
        (
            "preempt",
            {"Pod": pod("p"), "NodeNameToMetaVictims": {"a": {"Pods": [{}]}}},
            "Pods[0].UID: missing",
        ),
        ("preempt", {"Pod": pod("p"), "NodeNameToVictims": {"a": {"Pods": [{}]}}}, "metadata"),
    ],
)
async def test_missing_field_is_named(verb: str, body: object, problem: str) -> None:
    reply = await ExtenderScenario(node("a")).send("POST", f"/{verb}", msgspec.json.encode(body))
    assert reply.status == 400
    assert problem in json.loads(reply.body)["Error"]


async def test_empty_node_list_and_unknown_fields_are_accepted() -> None:
    args = {"Pod": {**pod("p"), "status": {"phase": "x"}}, "Nodes": {"items": None}, "More": 1}
    answer = await ExtenderScenario().call_verb("filter", args)
    assert answer["Nodes"] == {"items": []}


async def test_unknown_verbs_and_methods_list_the_known_ones() -> None:
    scenario = ExtenderScenario()
    unknown = await scenario.send("POST", "/filterr", b"{}")
    assert unknown.status == 404
    assert "filter, prioritize, preempt, bind" in json.loads(unknown.body)["Error"]
    wrong = await scenario.send("GET", "/filter")
    assert (wrong.status, wrong.headers["allow"]) == (405, "POST")
    wrong = await scenario.send("POST", "/explain")
    assert (wrong.status, wrong.headers["allow"]) == (405, "GET")


async def test_requests_fail_before_the_caches_have_synced() -> None:
    scenario = ExtenderScenario(node("a"))
    scenario.synced = False
    for verb in ("filter", "bind"):
        answer = await scenario.call_verb(verb, {})
        assert answer == {"Error": "the extender's caches have not synced yet"}
    for verb in ("prioritize", "preempt"):
        assert (await scenario.send("POST", f"/{verb}", b"{}")).status == 503
    assert (await scenario.send("GET", "/explain", pod="default/p")).status == 503
