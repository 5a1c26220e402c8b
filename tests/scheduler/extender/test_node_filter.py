"""The reasons against nodes, as they appear in a pod's events."""

import json
from typing import Any

import pytest

from tests.scheduler.extender.extender_fixture import ExtenderScenario, node, pod

_LINKED = json.dumps({"gpus": [{}, {}, {}, {}], "links": [[0, 1, 100], [2, 3, 100]]})
_MIG_TOPOLOGY = json.dumps({"gpus": [{}], "mig": "H100-80GB", "product": "NVIDIA-H100-80GB-HBM3"})
_H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559"}
_MIG = "nvidia.com/mig-3g.40gb"

UNRESOLVABLE: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "too few GPUs": (node("n", 2), pod("p", 3), "fewer than 3 nvidia.com/gpu"),
    "a taint": (
        node("n", taints=[{"key": "k", "effect": "NoSchedule"}]),
        pod("p"),
        "untolerated taints",
    ),
    "a cordon": (node("n", unschedulable=True), pod("p"), "untolerated taints"),
    "a selector": (node("n"), pod("p", nodeSelector={"a": "b"}), "node affinity/selector"),
    "another model": (
        node("n", labels=_H100),
        pod("p", annotations={"gpu.kilonova.dev/model": "H200"}),
        "1 GPU of H200",
    ),
    "little memory": (
        node("n", labels=_H100),
        pod("p", annotations={"gpu.kilonova.dev/min-memory": "90000"}),
        "1 GPU of 90000 MiB",
    ),
    "no MIG": (node("n"), pod("p", resource=_MIG), "1 MIG instance 3g.40gb"),
    "an avoided node": (
        node("n"),
        pod("p", annotations={"scheduling.kilonova.dev/avoid-nodes": "n"}),
        "avoided after failures of this workload",
    ),
    "an unknown node": (node("other"), pod("p"), "not in the extender's cache yet"),
    "an invalid annotation": (
        node("n"),
        pod("p", annotations={"gpu.kilonova.dev/topology": "Ring"}),
        "'Ring' is not a GPU topology preference: use one of None, NVLinkOptimal",
    ),
}


@pytest.mark.parametrize("case", UNRESOLVABLE)
async def test_reasons_that_eviction_cannot_change_are_unresolvable(case: str) -> None:
    existing_node, requesting_pod, text = UNRESOLVABLE[case]
    answer = await ExtenderScenario(existing_node).filter(requesting_pod, "n")
    assert text in answer["FailedAndUnresolvableNodes"]["n"]
    assert (answer["NodeNames"], answer["FailedNodes"], answer["Error"]) == ([], {}, "")


RESOLVABLE: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], str]] = {
    "GPUs in use": (
        node("n", 2),
        pod("x", 2, node="n", devices="0,1"),
        pod("p"),
        "Insufficient nvidia.com/gpu",
    ),
    "cores in use": (
        node("n"),
        pod("x", cores=64, node="n", devices="0"),
        pod("p", cores=1),
        "Insufficient cpu",
    ),
    "links in use": (
        node("n", 4, annotations={"gpu.kilonova.dev/topology": _LINKED}),
        pod("x", 2, node="n", devices="1,2"),
        pod("p", 2, annotations={"gpu.kilonova.dev/topology": "NVLinkRequired"}),
        "too few free GPUs joined by NVLink",
    ),
    "a share in use": (
        node("n", 1),
        pod("x", 0, node="n", devices="0:600", annotations={"gpu-fraction": "0.6"}),
        pod("p", 0, annotations={"gpu-fraction": "0.5"}),
        "no GPU with 500/1000 free",
    ),
    "instances in use": (
        node("n", 1, annotations={"gpu.kilonova.dev/topology": _MIG_TOPOLOGY}),
        pod("x", 2, node="n", devices="0:3g.40gb@0,0:3g.40gb@4", resource=_MIG),
        pod("p", resource=_MIG),
        "insufficient free slices for 1 MIG instance 3g.40gb",
    ),
    "advertised instances in use": (
        node("n", 0, allocatable={_MIG: "1"}),
        pod("x", node="n", resource=_MIG),
        pod("p", resource=_MIG),
        "insufficient free slices for 1 MIG instance 3g.40gb",
    ),
}


@pytest.mark.parametrize("case", RESOLVABLE)
async def test_capacity_in_use_is_resolvable_by_preemption(case: str) -> None:
    existing_node, running_pod, requesting_pod, text = RESOLVABLE[case]
    scenario = ExtenderScenario(existing_node)
    assert (await scenario.filter(requesting_pod, "n"))["NodeNames"] == ["n"]
    scenario.add_pods(running_pod)
    answer = await scenario.filter(requesting_pod, "n")
    assert text in answer["FailedNodes"]["n"]
    assert (answer["NodeNames"], answer["FailedAndUnresolvableNodes"]) == ([], {})


async def test_ended_pods_use_no_capacity() -> None:
    scenario = ExtenderScenario(node("n", 1))
    scenario.add_pods({**pod("x", node="n", devices="0"), "status": {"phase": "Succeeded"}})
    assert (await scenario.filter(pod("p"), "n"))["NodeNames"] == ["n"]


async def test_explain_shows_plugin_scores_devices_and_reasons() -> None:
    scenario = ExtenderScenario(node("a", 2), node("b", 1), node("c", 0))
    scenario.add_pods(pod("x", node="b", devices="0"), pod("p", 1))
    reply = await scenario.send("GET", "/explain", pod="default/p")
    report = json.loads(reply.body)
    (best,) = report["nodes"]
    assert (best["node"], best["priority"], best["devices"]) == ("a", 10, "0")
    assert best["pluginScores"].keys() == {"topology", "fit", "balance"}
    weights = {"topology": 40, "fit": 35, "balance": 25}
    total = sum(weights[name] * score for name, score in best["pluginScores"].items()) / 100
    assert best["score"] == pytest.approx(total, abs=0.01)
    assert report["feasible"] == 1
    assert report["failed"] == {"Insufficient nvidia.com/gpu": 1}
    assert report["unresolvable"] == {"node(s) had fewer than 1 nvidia.com/gpu": 1}
    assert scenario.cache.cluster.snapshot.placements.keys() == {"default/x"}


async def test_explain_of_pods_that_need_no_decision() -> None:
    scenario = ExtenderScenario(node("a"))
    invalid = pod("q", annotations={"gpu.kilonova.dev/min-memory": "much"})
    scenario.add_pods(pod("x", node="a", devices="5"), invalid)
    reply = await scenario.send("GET", "/explain", pod="default/x")
    assert json.loads(reply.body) == {"pod": "default/x", "boundTo": "a", "devices": "5"}
    reply = await scenario.send("GET", "/explain", pod="default/q")
    assert "'much' is not a GPU memory size in MiB" in json.loads(reply.body)["problem"]


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ({}, 400, "use pod=NAMESPACE/NAME"),
        ({"pod": "p"}, 400, "use pod=NAMESPACE/NAME"),
        ({"pod": "default/p", "nodes": "many"}, 400, "nodes=many: use a number"),
        ({"pod": "default/nobody"}, 404, "pod default/nobody not found"),
    ],
)
async def test_invalid_explain_request_is_rejected(
    query: dict[str, str], status: int, text: str
) -> None:
    reply = await ExtenderScenario().send("GET", "/explain", b"", **query)
    assert reply.status == status
    assert text in json.loads(reply.body)["Error"]
