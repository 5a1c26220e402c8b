"""Rules about other pods mean what they mean to kube-scheduler: the genuine one decides about pods
with random rules, and every decision, and every count of reasons, is one of ours."""

import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from kilonova.api.json import JsonObject
from kilonova.scheduler.core.filters import Reason, reasons
from kilonova.scheduler.core.gangs import Member
from kilonova.scheduler.core.nearness import objections
from kilonova.scheduler.core.snapshot import Booking, Snapshot
from kilonova.scheduler.objects import Node, Pod
from kilonova.scheduler.reading.nodes import node_of
from kilonova.scheduler.reading.pods import member_of
from tests.clients.ground import until
from tests.harness.access import Access
from tests.harness.controlplane import HOW_TO_GET, ControlPlane, binaries

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
SAID = {
    "didn't match pod affinity rules": Reason.POD_AFFINITY,
    "didn't match pod anti-affinity rules": Reason.POD_ANTI_AFFINITY,
    "didn't satisfy existing pods anti-affinity rules": Reason.REPELLED,
    "didn't match pod topology spread constraints": Reason.SPREAD,
}
_PODS = 60
_MOST_PODS = 300
"""kube-scheduler chooses between equals at random: it may take more until enough were refused."""


@pytest.fixture(scope="module")
def access(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    """A control plane with nodes and namespaces, for whose pods kube-scheduler finds nodes."""
    if binaries() is None:
        pytest.skip(HOW_TO_GET)
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


def _post(access: Access, path: str, body: JsonObject) -> JsonObject:
    status, answer = access.ask("POST", path, body)
    assert status in (200, 201), answer
    return answer


@pytest.mark.parametrize("seed", [1, 2])
def test_every_decision_of_kube_scheduler_is_one_of_ours(access: Access, seed: int) -> None:
    draw = random.Random(seed)
    snapshot = Snapshot()
    for name in NODES:
        wire = msgspec.convert(access.ask("GET", f"/api/v1/nodes/{name}")[1], Node)
        snapshot.put_node(node_of(wire)[0])
    outcomes: Counter[str] = Counter()
    for number in range(_MOST_PODS):
        if number >= _PODS and min(outcomes["placed"], outcomes["refused"]) > _PODS / 6:
            break
        path = f"/api/v1/namespaces/{draw.choice(sorted(NAMESPACES))}/pods"
        name = f"pod-{seed}-{number}"
        made = _post(access, path, _random_pod(draw, name))
        member = member_of(msgspec.convert(made, Pod), NAMESPACES)
        against = _against(snapshot, member)
        answer = until(lambda at=f"{path}/{name}": access.ask("GET", at)[1], _is_decided)
        node = answer["spec"].get("nodeName")
        if node is None:
            (condition,) = answer["status"]["conditions"]
            told = _told(condition["message"])
            ours = Counter(reason for reason in against.values() if reason in SAID.values())
            assert (told, Reason.FITS in against.values()) == (ours, False), answer
            outcomes["refused"] += 1
            _delete(access, f"{path}/{name}", now=True)
            continue
        assert against[node] == Reason.FITS, answer
        outcomes["placed"] += 1
        snapshot.book(Booking(member, snapshot.row(node)))
        if draw.random() < 0.3:
            _let_one_go(access, snapshot, draw)
    for key in list(snapshot.bookings):
        namespace, _, name = key.partition("/")
        _delete(access, f"/api/v1/namespaces/{namespace}/pods/{name}", now=True)
    assert min(outcomes["placed"], outcomes["refused"]) > _PODS / 6, outcomes


def _against(snapshot: Snapshot, member: Member) -> dict[str, Reason]:
    """The first reason against each node, as kube-scheduler asks for them."""
    rows = np.arange(snapshot.size)
    fixed = reasons(snapshot, member.shape, rows)
    others = objections(snapshot, member)
    found = fixed if others is None else np.where(fixed != 0, fixed, others)
    return {snapshot.names[row]: Reason(int(found[row])) for row in rows}


def _let_one_go(access: Access, snapshot: Snapshot, draw: random.Random) -> None:
    """A pod goes at once, or begins to and stays for long, as there is no kubelet to end it."""
    key = draw.choice(sorted(snapshot.bookings))
    namespace, _, name = key.partition("/")
    now = draw.random() < 0.5
    booking = snapshot.bookings[key]
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    _delete(access, path, now=now)
    snapshot.release(key)
    if not now:
        leaving = msgspec.convert(access.ask("GET", path)[1], Pod)
        snapshot.book(Booking(member_of(leaving, NAMESPACES), booking.row))


def _delete(access: Access, path: str, *, now: bool) -> None:
    body = {"gracePeriodSeconds": 0} if now else None
    status, answer = access.ask("DELETE", path, body)
    assert status == 200, answer


def _is_decided(pod: JsonObject) -> bool:
    return bool(pod["spec"].get("nodeName") or pod["status"].get("conditions"))


def _told(message: str) -> Counter[Reason]:
    """How many nodes kube-scheduler counts for each reason."""
    told: Counter[Reason] = Counter()
    first = message.partition("preemption:")[0]
    for count, text in re.findall(r"(\d+) node\(s\) ([^,.(]+)", first):
        reason = SAID.get(text.strip())
        if reason is not None:
            told[reason] += int(count)
    return told


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
