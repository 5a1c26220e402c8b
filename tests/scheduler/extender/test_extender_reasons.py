"""Why nodes will not do, in the words that stand in a pod's events."""

import json
from typing import Any

import pytest

from tests.scheduler.extender.scene import Scene, node, pod

_LINKED = json.dumps({"gpus": [{}, {}, {}, {}], "links": [[0, 1, 100], [2, 3, 100]]})
_SPLIT = json.dumps({"gpus": [{}], "mig": "H100-80GB", "product": "NVIDIA-H100-80GB-HBM3"})
_H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559"}
_MIG = "nvidia.com/mig-3g.40gb"

NEVER: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
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
    "a node that failed": (
        node("n"),
        pod("p", annotations={"scheduling.kilonova.dev/avoid-nodes": "n"}),
        "failed this workload before",
    ),
    "an unknown node": (node("other"), pod("p"), "not known"),
    "what nobody can read": (
        node("n"),
        pod("p", annotations={"gpu.kilonova.dev/topology": "Ring"}),
        "'Ring' is no wish about GPUs: write one of None, NVLinkOptimal",
    ),
}


@pytest.mark.parametrize("case", NEVER)
async def test_what_no_eviction_would_change_is_unresolvable(case: str) -> None:
    there, asking, text = NEVER[case]
    answer = await Scene(there).filter(asking, "n")
    assert text in answer["FailedAndUnresolvableNodes"]["n"]
    assert (answer["NodeNames"], answer["FailedNodes"], answer["Error"]) == ([], {}, "")


NOT_NOW: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], str]] = {
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
        node("n", 1, annotations={"gpu.kilonova.dev/topology": _SPLIT}),
        pod("x", 2, node="n", devices="0:3g.40gb@0,0:3g.40gb@4", resource=_MIG),
        pod("p", resource=_MIG),
        "no place for 1 MIG instance 3g.40gb",
    ),
    "instances of others in use": (
        node("n", 0, allocatable={_MIG: "1"}),
        pod("x", node="n", resource=_MIG),
        pod("p", resource=_MIG),
        "no place for 1 MIG instance 3g.40gb",
    ),
}


@pytest.mark.parametrize("case", NOT_NOW)
async def test_what_is_in_use_may_be_pushed_out(case: str) -> None:
    there, user, asking, text = NOT_NOW[case]
    scene = Scene(there)
    assert (await scene.filter(asking, "n"))["NodeNames"] == ["n"]
    scene.show(user)
    answer = await scene.filter(asking, "n")
    assert text in answer["FailedNodes"]["n"]
    assert (answer["NodeNames"], answer["FailedAndUnresolvableNodes"]) == ([], {})


async def test_pods_that_have_ended_use_nothing() -> None:
    scene = Scene(node("n", 1))
    scene.show({**pod("x", node="n", devices="0"), "status": {"phase": "Succeeded"}})
    assert (await scene.filter(pod("p"), "n"))["NodeNames"] == ["n"]


async def test_explain_shows_parts_of_scores_devices_and_reasons() -> None:
    scene = Scene(node("a", 2), node("b", 1), node("c", 0))
    scene.show(pod("x", node="b", devices="0"), pod("p", 1))
    reply = await scene.send("GET", "/explain", pod="default/p")
    said = json.loads(reply.body)
    (best,) = said["nodes"]
    assert (best["node"], best["level"], best["devices"]) == ("a", 10, "0")
    assert best["parts"].keys() == {"topology", "fit", "balance"}
    weights = {"topology": 40, "fit": 35, "balance": 25}
    total = sum(weights[name] * part for name, part in best["parts"].items()) / 100
    assert best["score"] == pytest.approx(total, abs=0.01)
    assert said["fitting"] == 1
    assert said["failed"] == {"Insufficient nvidia.com/gpu": 1}
    assert said["unresolvable"] == {"node(s) had fewer than 1 nvidia.com/gpu": 1}
    assert scene.world.cluster.snapshot.bookings.keys() == {"default/x"}


async def test_explain_of_pods_that_need_no_decision() -> None:
    scene = Scene(node("a"))
    misread = pod("q", annotations={"gpu.kilonova.dev/min-memory": "much"})
    scene.show(pod("x", node="a", devices="5"), misread)
    reply = await scene.send("GET", "/explain", pod="default/x")
    assert json.loads(reply.body) == {"pod": "default/x", "boundTo": "a", "devices": "5"}
    reply = await scene.send("GET", "/explain", pod="default/q")
    assert "'much' is no memory of a GPU" in json.loads(reply.body)["problem"]


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ({}, 400, "write pod=NAMESPACE/NAME"),
        ({"pod": "p"}, 400, "write pod=NAMESPACE/NAME"),
        ({"pod": "default/p", "nodes": "many"}, 400, "nodes=many: write a number"),
        ({"pod": "default/nobody"}, 404, "there is no pod default/nobody"),
    ],
)
async def test_explain_says_what_it_needs(query: dict[str, str], status: int, text: str) -> None:
    reply = await Scene().send("GET", "/explain", b"", **query)
    assert reply.status == status
    assert text in json.loads(reply.body)["Error"]
