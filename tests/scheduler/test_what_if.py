"""What if more pods came: where they would go, whom they would push out, why not."""

from dataclasses import replace
from typing import Any

import msgspec

from kilonova.api.podgang import PodGang
from kilonova.scheduler.core.asks import GpuAsk
from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.nodes import Node
from kilonova.scheduler.core.plan import Planner, Policy
from kilonova.scheduler.core.scores import default_scoring
from kilonova.scheduler.decisions import replay
from kilonova.scheduler.files import written
from kilonova.scheduler.objects import Pod
from kilonova.scheduler.picture import Picture, picture_of
from kilonova.scheduler.whatif import what_if
from tests.scheduler import scheduling
from tests.scheduler.pictures import example, waits

RACK = "example.com/rack"
GIVEN = {"uid": "", "resourceVersion": "", "creationTimestamp": "2026-05-01T00:00:00Z"}


def pod(name: str, gpus: int, *, of: str = "", **spec: Any) -> Pod:
    body = scheduling.pod(name, gpus, of=of, **spec)
    body["metadata"] |= GIVEN
    for container in body["spec"]["containers"]:
        resources = container["resources"]
        resources["requests"] = {**resources["requests"], **resources["limits"]}
    return msgspec.convert(body, Pod)


def gang(name: str, groups: dict[str, list[str]], **spec: Any) -> PodGang:
    body = scheduling.gang(name, groups, **spec)
    body["metadata"] |= {**GIVEN, "labels": {"set": "s"}}
    return msgspec.convert(body, PodGang)


def picture(*standing: str, racks: int = 2) -> Picture:
    """Nodes of two GPUs, each in a rack of its own, and gangs of one pod with a GPU that stand."""
    cluster = Cluster()
    amounts = {"cpu": 8000, "memory": 64 << 30, "pods": 10, "nvidia.com/gpu": 2}
    for index in range(racks):
        cluster.snapshot.put_node(Node(f"n{index}", amounts, {RACK: f"r{index}"}))
    planner = Planner(cluster, default_scoring(), Policy())
    planner.decide([waits(name, GpuAsk(1)) for name in standing], 0.0)
    return picture_of(cluster, [], [], Policy(), 1_777_593_600.0)


def test_pods_of_a_gang_go_together_or_not_at_all():
    pods = [pod(name, 2, of="g") for name in ("a", "b", "c")]
    told = what_if(picture(), pods, [gang("g", {"w": ["a", "b", "c"]})])
    assert told.placed == ()
    (refused,) = told.refused
    assert (refused.gang, refused.reason) == ("default/g", "NoRoom")
    fewer = what_if(picture(), pods[:2], [gang("g", {"w": ["a", "b"]})])
    assert {each.node for each in fewer.placed[0].pods} == {"n0", "n1"}


def test_who_would_be_pushed_out_is_told():
    told = what_if(picture("old", racks=1), [pod("new", 2, priority=5)], [])
    (placed,) = told.placed
    assert [(each.gang, each.pods) for each in placed.evicted] == [("ns/old", ("ns/old",))]


def test_those_who_wait_already_take_their_turn_before():
    earlier = replace(picture(racks=1), waiting=(waits("earlier", GpuAsk(2)),))
    told = what_if(earlier, [pod("new", 2)], [])
    assert told.placed == ()
    assert [each.gang for each in told.refused] == ["pod/default/new"]


def test_a_gang_follows_its_base():
    pods = [pod("a", 1, of="base"), pod("b", 1, of="more")]
    ref = {"namespace": "default", "name": "base"}
    pack = {"packConstraint": {"required": RACK}}
    base = gang("base", {"w": ["a"]}, topologyConstraint=pack)
    more = gang("more", {"w": ["b"]}, baseRef=ref, topologyConstraint=pack)
    told = what_if(picture(), pods, [more, base])
    assert [each.gang for each in told.placed] == ["default/base", "default/more"]
    assert told.placed[0].pods[0].node == told.placed[1].pods[0].node
    without = what_if(picture(), pods[1:], [more])
    assert [each.reason for each in without.refused] == ["BaseNotPlaced"]


def test_gangs_that_keep_apart_do_so_among_those_that_come():
    pods = [pod(name, 1, of=name) for name in ("a", "b", "c")]
    spread = {"topologyKey": RACK, "among": "set", "required": True}
    gangs = [gang(name, {"w": [name]}, spread=spread) for name in ("a", "b", "c")]
    told = what_if(picture(), pods, gangs)
    assert sorted(each.pods[0].node for each in told.placed) == ["n0", "n1"]
    assert [each.gang for each in told.refused] == ["default/c"]


def test_nothing_is_changed_by_asking():
    before = example()
    text = written(before)
    what_if(before, [pod("a", 1)], [])
    assert written(before) == text


def test_other_rules_decide_otherwise():
    tight = replace(picture("old", racks=1), waiting=(replace(waits("w", GpuAsk(2)), priority=9),))
    assert replay(tight).placed[0].evicted
    assert replay(tight.by_rules(Policy(evicts=False), default_scoring())).placed == ()
