"""How many copies of a build fit, in words."""

from kilonova.artifacts.builds import Build
from kilonova.instances.alloc.allocation import BuildRequest, allocate
from kilonova.instances.allocation import AllocationConstraints
from kilonova.instances.fit.answer import format_answer
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot
from tests.instances.clusters import NOW, RACK, pod, rack, snapshot_of

BUILD = Build(id="llama-v7", model="llama", agents=4)


def answer(cluster: ClusterSnapshot, limit: int = 10) -> list[str]:
    request = BuildRequest.of(BUILD, "ns", "tightest")
    allocation = allocate(request, AllocationConstraints(required=RACK), cluster, limit)
    return list(format_answer(allocation, NOW))


def test_next_copy_and_number_and_reason():
    nodes = [*rack("z/b/r0"), *rack("z/b/r1")]
    lines = answer(snapshot_of(*nodes, pods=[pod("web", "r0-n0", range(4))]))
    assert lines[:4] == [
        "Build llama-v7 of llama: 4 agents with 1 nvidia.com/gpu each, strategy tightest",
        "Next copy: 1 node in z/b/r0",
        "Copies that fit: 3",
        "ns/iei-llama-3 would be pending: InsufficientCapacity.",
    ]
    assert lines[4].startswith("Blocked by: group agents needs 4 pods")


def test_limit():
    assert answer(snapshot_of(*rack("z/b/r0")), 1)[1:] == [
        "Next copy: 1 node in z/b/r0",
        "Copies that fit: at least 1",
    ]


def test_no_copy_fits():
    lines = answer(snapshot_of(*rack("z/b/r0", 1, gpus=3)))
    assert lines[1:3] == [
        "Copies that fit: 0",
        "ns/iei-llama would be pending: InsufficientCapacity.",
    ]
    assert lines[3].startswith("Blocked by: group agents needs 4 pods")
