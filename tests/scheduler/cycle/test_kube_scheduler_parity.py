"""Pod affinity and spread constraints mean what they mean to kube-scheduler.

The genuine kube-scheduler schedules pods with random constraints; every decision and every count of
reasons must be one of ours.
"""

import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from kilonova.api.json import JsonObject
from kilonova.scheduler.convert.nodes import convert_node
from kilonova.scheduler.convert.pods.members import convert_pod
from kilonova.scheduler.core.filters.inter_pod_rules import inter_pod_rejections
from kilonova.scheduler.core.filters.node_filters import FilterReason, filter_nodes
from kilonova.scheduler.core.model.gangs import Member
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.objects.core_v1 import Node, Pod
from tests.clients.client_cluster import wait_until
from tests.harness.access import ServerAccess
from tests.harness.control_plane import ControlPlane

NAMESPACES = {"east": {"team": "a"}, "west": {"team": "b"}}
HOST = "kubernetes.io/hostname"
NODES: dict[str, tuple[dict[str, str], list[JsonObject]]] = {
    "n0": ({"zone": "a"}, []),
    "n1": ({"zone": "a"}, []),
    "n2": ({"zone": "b"}, []),
    "n3": ({"zone": "b"}, [{"key": "t", "effect": "NoSchedule"}]),
    "n4": ({"zone": "c"}, []),
    "n5": ({}, []),
}
REASON_MESSAGES = {
    "didn't match pod affinity rules": FilterReason.POD_AFFINITY,
    "didn't match pod anti-affinity rules": FilterReason.POD_ANTI_AFFINITY,
    "didn't satisfy existing pods anti-affinity rules": FilterReason.EXISTING_POD_ANTI_AFFINITY,
    "didn't match pod topology spread constraints": FilterReason.SPREAD,
}
_PODS = 60
_MAX_PODS = 300
"""kube-scheduler chooses randomly between equal nodes, and may need more pods until enough are
rejected."""


@pytest.fixture(scope="module")
def access(
    control_plane_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerAccess]:
    """A control plane with nodes and namespaces, and kube-scheduler for its pods."""
    folder: Path = tmp_path_factory.mktemp("rules")
    with ControlPlane.start(folder) as plane:
        for name, labels in NAMESPACES.items():
            _post(
                plane.access, "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}}
            )
        for name, (labels, taints) in NODES.items():
            capacity = {"cpu": "64", "memory": "256Gi", "pods": "500"}
            node: JsonObject = {
                "metadata": {"name": name, "labels": {HOST: name, **labels}},
                "spec": {"taints": taints},
                "status": {"capacity": capacity, "allocatable": capacity},
            }
            _post(plane.access, "/api/v1/nodes", node)
        plane.start_scheduler()
        yield plane.access


def _post(access: ServerAccess, path: str, body: JsonObject) -> JsonObject:
    status, answer = access.request("POST", path, body)
    assert status in (200, 201), answer
    return answer


@pytest.mark.parametrize("seed", [1, 2])
def test_decisions_of_kube_scheduler_are_feasible_for_us(access: ServerAccess, seed: int) -> None:
    draw = random.Random(seed)
    snapshot = Snapshot()
    for name in NODES:
        wire = msgspec.convert(access.request("GET", f"/api/v1/nodes/{name}")[1], Node)
        snapshot.put_node(convert_node(wire)[0])
    outcomes: Counter[str] = Counter()
    for number in range(_MAX_PODS):
        if number >= _PODS and min(outcomes["placed"], outcomes["rejected"]) > _PODS / 6:
            break
        path = f"/api/v1/namespaces/{draw.choice(sorted(NAMESPACES))}/pods"
        name = f"pod-{seed}-{number}"
        made = _post(access, path, _random_pod(draw, name))
        member = convert_pod(msgspec.convert(made, Pod), NAMESPACES)
        reasons_by_node = _rejections_by_node(snapshot, member)
        answer = wait_until(lambda at=f"{path}/{name}": access.request("GET", at)[1], _is_decided)
        node = answer["spec"].get("nodeName")
        if node is None:
            (condition,) = answer["status"]["conditions"]
            reason_counts = _parse_message(condition["message"])
            ours = Counter(
                reason for reason in reasons_by_node.values() if reason in REASON_MESSAGES.values()
            )
            assert (reason_counts, FilterReason.FITS in reasons_by_node.values()) == (
                ours,
                False,
            ), answer
            outcomes["rejected"] += 1
            _delete(access, f"{path}/{name}", now=True)
            continue
        assert reasons_by_node[node] == FilterReason.FITS, answer
        outcomes["placed"] += 1
        snapshot.add_pod(PodPlacement(member, snapshot.row(node)))
        if draw.random() < 0.3:
            _delete_random_pod(access, snapshot, draw)
    for key in list(snapshot.placements):
        namespace, _, name = key.partition("/")
        _delete(access, f"/api/v1/namespaces/{namespace}/pods/{name}", now=True)
    assert min(outcomes["placed"], outcomes["rejected"]) > _PODS / 6, outcomes


def _rejections_by_node(snapshot: Snapshot, member: Member) -> dict[str, FilterReason]:
    """The first reason against each node, in kube-scheduler's order of filters."""
    rows = np.arange(snapshot.size)
    fixed = filter_nodes(snapshot, member.shape, rows)
    others = inter_pod_rejections(snapshot, member)
    found = fixed if others is None else np.where(fixed != 0, fixed, others)
    return {snapshot.names[row]: FilterReason(int(found[row])) for row in rows}


def _delete_random_pod(access: ServerAccess, snapshot: Snapshot, draw: random.Random) -> None:
    """Delete a pod at once, or leave it terminating, as there is no kubelet to end it."""
    key = draw.choice(sorted(snapshot.placements))
    namespace, _, name = key.partition("/")
    now = draw.random() < 0.5
    pod_placement = snapshot.placements[key]
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    _delete(access, path, now=now)
    snapshot.remove_pod(key)
    if not now:
        terminating = msgspec.convert(access.request("GET", path)[1], Pod)
        snapshot.add_pod(PodPlacement(convert_pod(terminating, NAMESPACES), pod_placement.row))


def _delete(access: ServerAccess, path: str, *, now: bool) -> None:
    body = {"gracePeriodSeconds": 0} if now else None
    status, answer = access.request("DELETE", path, body)
    assert status == 200, answer


def _is_decided(pod: JsonObject) -> bool:
    return bool(pod["spec"].get("nodeName") or pod["status"].get("conditions"))


def _parse_message(message: str) -> Counter[FilterReason]:
    """The number of nodes that kube-scheduler counts for each reason."""
    reason_counts: Counter[FilterReason] = Counter()
    first = message.partition("preemption:")[0]
    for count, text in re.findall(r"(\d+) node\(s\) ([^,.(]+)", first):
        reason = REASON_MESSAGES.get(text.strip())
        if reason is not None:
            reason_counts[reason] += int(count)
    return reason_counts


def _random_pod(draw: random.Random, name: str) -> JsonObject:
    affinity: JsonObject = {}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    if draw.random() < 0.35:
        affinity["podAffinity"] = {
            required: [_random_term(draw) for _ in range(draw.randint(1, 2))]
        }
    if draw.random() < 0.35:
        affinity["podAntiAffinity"] = {required: [_random_term(draw)]}
    if draw.random() < 0.2:
        expression = {"key": "zone", "operator": "In", "values": draw.sample("abc", 2)}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        affinity["nodeAffinity"] = {required: terms}
    levels = draw.sample(["zone", HOST], draw.choice([0, 0, 1, 2]))
    labels = {key: draw.choice("12") for key in "xy" if draw.random() < 0.7}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "containers": [{"name": "main", "image": "example"}],
            "tolerations": [{"operator": "Exists"}] if draw.random() < 0.4 else [],
            "terminationGracePeriodSeconds": 3600,
            "affinity": affinity,
            "topologySpreadConstraints": [_random_spread(draw, level) for level in levels],
        },
    }


def _random_term(draw: random.Random) -> JsonObject:
    term: JsonObject = {
        "topologyKey": draw.choice(["zone", HOST]),
        "labelSelector": _random_selector(draw),
    }
    match draw.randint(0, 5):
        case 0:
            term["namespaces"] = ["east"]
        case 1:
            term["namespaceSelector"] = {}
        case 2:
            term["namespaceSelector"] = {"matchLabels": {"team": draw.choice("ab")}}
        case 3:
            term["matchLabelKeys"] = ["x"]
            term["labelSelector"] = {"matchLabels": {"y": "1"}}
        case 4:
            term["mismatchLabelKeys"] = ["x"]
            term["labelSelector"] = {"matchLabels": {"y": "1"}}
        case _:
            pass
    return term


def _random_selector(draw: random.Random) -> JsonObject | None:
    match draw.randint(0, 6):
        case 0:
            return None
        case 1:
            return {}
        case 2:
            return {"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["1"]}]}
        case 3:
            return {"matchExpressions": [{"key": "y", "operator": "Exists"}]}
        case _:
            return {"matchLabels": {draw.choice("xy"): draw.choice("12")}}


def _random_spread(draw: random.Random, level: str) -> JsonObject:
    constraint: JsonObject = {
        "maxSkew": draw.randint(1, 2),
        "topologyKey": level,
        "whenUnsatisfiable": draw.choice(["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]),
        "labelSelector": _random_selector(draw),
    }
    if constraint["whenUnsatisfiable"] == "DoNotSchedule" and draw.random() < 0.3:
        constraint["minDomains"] = draw.randint(1, 4)
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if draw.random() < 0.5:
            constraint[policy] = draw.choice(["Honor", "Ignore"])
    if draw.random() < 0.3:
        constraint["matchLabelKeys"] = ["x"]
        constraint["labelSelector"] = {"matchLabels": {"y": "1"}}
    return constraint
