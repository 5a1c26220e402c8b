"""Builds allocated in snapshots: the gang of an instance, its place, and saved answers."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import yaml

from kilonova.api.inference_engine import EngineSpec
from kilonova.artifacts.builds import Build, BuildAccelerator, BuildTopology, open_build_source
from kilonova.instances.alloc.allocation import (
    Allocation,
    BuildRequest,
    allocate,
    find_levels,
    list_agents,
)
from kilonova.instances.alloc.allocation_text import format_allocation
from kilonova.instances.alloc.instance_gang import build_instance_gang
from kilonova.instances.alloc.saved_allocation import save_allocation
from kilonova.instances.alloc.snapshot_nodes import to_wire_nodes
from kilonova.instances.allocation import AllocationConstraints
from kilonova.instances.allocation.strategies import STRATEGIES
from kilonova.instances.builders.engine import InvalidSpec, resolve_engine
from kilonova.instances.builders.identity import Identity
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.library.snapshots.file import encode_snapshot, load_snapshot_file
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot
from tests.instances.clusters import BLOCK, NPU, RACK, node, pod, rack, snapshot_of

LLAMA = Build(id="llama-v7", model="meta/Llama 3.2", agents=6)


def cluster(*more: Node) -> ClusterSnapshot:
    """Two blocks of two racks with eight GPUs each; half of the first rack is used."""
    racks = [
        each
        for block in range(2)
        for number in range(2)
        for each in rack(f"zone-a/block-{block}/rack-{2 * block + number}")
    ]
    return snapshot_of(*racks, *more, pods=[pod("web", "rack-0-n0", range(4))])


def allocate_build(
    snapshot: ClusterSnapshot, build: Build = LLAMA, copies: int = 1, strategy: str = "tightest"
) -> Allocation:
    request = BuildRequest.of(build, "team", strategy)
    asked = request.ask_strategy(find_levels(snapshot), to_wire_nodes(snapshot.nodes))
    return allocate(request, STRATEGIES[strategy](asked), snapshot, copies)


def domains(allocation: Allocation) -> list[str]:
    return [copy.domain for copy in allocation.copies.placed]


def test_tightest_takes_the_smallest_domain_that_fits():
    allocation = allocate_build(cluster(), copies=10)
    assert domains(allocation)[:3] == [
        "zone-a/block-0/rack-1",
        "zone-a/block-1/rack-2",
        "zone-a/block-1/rack-3",
    ]
    (copy, *_) = allocation.copies.placed
    assert [(agent, each.pod, each.devices) for agent, each in list_agents(copy)] == [
        ("0", "team/meta-llama-3-2-agent-0", "0"),
        ("1", "team/meta-llama-3-2-agent-1", "1"),
        ("2", "team/meta-llama-3-2-agent-2", "2"),
        ("3", "team/meta-llama-3-2-agent-3", "3"),
        ("4", "team/meta-llama-3-2-agent-4", "0"),
        ("5", "team/meta-llama-3-2-agent-5", "1"),
        ("conductor", "team/meta-llama-3-2-conductor", ""),
    ]


def test_larger_builds_take_larger_domains():
    assert domains(allocate_build(cluster(), msgspec.structs.replace(LLAMA, agents=12))) == [
        "zone-a/block-0"
    ]
    assert domains(allocate_build(cluster(), msgspec.structs.replace(LLAMA, agents=20))) == [
        "zone-a"
    ]


def test_required_level_of_a_build_is_not_exceeded():
    in_rack = msgspec.structs.replace(LLAMA, agents=9, topology=BuildTopology(required=RACK))
    copies = allocate_build(cluster(), in_rack).copies
    assert copies.count == 0
    assert copies.unplaced is not None
    assert copies.unplaced.reason == "InsufficientCapacity"
    assert RACK in copies.unplaced.message


def test_any_resource_is_allocated():
    nodes = [node(f"npu-{n}", "zone-b/block-9/rack-9", 0, resources={NPU: 4}) for n in range(2)]
    build = msgspec.structs.replace(
        LLAMA, agents=4, accelerator=BuildAccelerator(resource=NPU, count=2)
    )
    allocation = allocate_build(cluster(*nodes), build, copies=2)
    assert domains(allocation) == ["zone-b/block-9/rack-9"]
    lines = format_allocation(allocation).splitlines()
    assert lines[0] == "team/iei-meta-llama-3-2 in zone-b/block-9/rack-9"
    assert lines[1].split() == ["AGENT", "NODE", "DEVICES", "DOMAIN"]
    assert lines[2].split() == ["0", "npu-0", "2", NPU, "zone-b/block-9/rack-9"]


def test_equal_snapshots_give_equal_answers():
    first, second = (allocate_build(cluster(), copies=3) for _ in range(2))
    assert first == second


def test_answer_is_saved_with_its_inputs(tmp_path: Path):
    snapshot = cluster()
    allocation = allocate_build(snapshot)
    saved = save_allocation(allocation, snapshot, tmp_path / "data")
    assert [path.name for path in saved] == [
        "llama-v7.json",
        "llama-v7.snapshot.json.gz",
        "llama-v7.allocation.yaml",
    ]
    loaded = load_snapshot_file(saved[1])
    assert encode_snapshot(loaded) == encode_snapshot(snapshot)
    assert allocate_build(loaded) == allocation
    document = yaml.safe_load(saved[2].read_bytes())
    assert document["copies"]["placed"][0]["domain"] == "zone-a/block-0/rack-1"
    assert save_allocation(allocation, snapshot, tmp_path / "data") == saved


async def test_saved_build_is_one(tmp_path: Path):
    save_allocation(allocate_build(cluster()), cluster(), tmp_path)
    async with open_build_source(str(tmp_path)) as source:
        assert await source.list() == (LLAMA.id,)
        assert await source.load(LLAMA.id) == LLAMA


AGENT = {"containers": [{"name": "main", "image": "x", "resources": {"limits": {"cpu": "3"}}}]}


def instance_spec(**fields: object) -> EngineSpec:
    body = {"model": "m", "targetAgents": 1, "image": "engine", "agent": {"spec": AGENT}}
    return msgspec.convert({**body, **fields}, EngineSpec)


def shape_of_agent(snapshot: ClusterSnapshot, spec: EngineSpec) -> Mapping[str, int]:
    identity = Identity("ns", "x")
    gang = build_instance_gang(identity, resolve_engine(spec), AllocationConstraints(), snapshot)
    return dict(gang.groups[0].members[0].shape.requests)


def test_requests_default_to_limits():
    requests = shape_of_agent(cluster(), instance_spec())
    assert (requests["cpu"], requests["nvidia.com/gpu"]) == (3000, 1)


def test_priority_is_that_of_the_class():
    snapshot = replace(cluster(), priorities={"high": 7}, never_preempting=("high",))
    engine = resolve_engine(instance_spec(priorityClassName="high"))
    gang = build_instance_gang(Identity("ns", "x"), engine, AllocationConstraints(), snapshot)
    assert (gang.priority, gang.preempts, gang.created) == (7, False, snapshot.now)


def test_unknown_priority_class_is_an_error():
    engine = resolve_engine(instance_spec(priorityClassName="high"))
    with pytest.raises(InvalidSpec, match="no class 'high': create it, or use one of") as caught:
        build_instance_gang(Identity("ns", "x"), engine, AllocationConstraints(), cluster())
    assert caught.value.field == "spec.priorityClassName"


def test_constraints_of_a_strategy_reach_the_scheduler():
    constraints = AllocationConstraints(required=BLOCK, avoided_nodes=("rack-0-n1",))
    engine = resolve_engine(instance_spec(queue="research"))
    gang = build_instance_gang(Identity("ns", "x"), engine, constraints, cluster())
    agents = gang.groups[0]
    assert (gang.queue, agents.pack.required) == ("research", BLOCK)
    assert agents.members[0].shape.avoided_nodes == frozenset({"rack-0-n1"})


def test_strategies_see_the_nodes_of_the_snapshot():
    shown = to_wire_nodes(snapshot_of(node("n", "z/b/r", states=["Cordoned"])).nodes)
    assert [(each.metadata.name, each.spec.unschedulable) for each in shown] == [("n", True)]
    assert shown[0].metadata.labels[RACK] == "r"
