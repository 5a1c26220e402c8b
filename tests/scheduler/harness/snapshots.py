"""Small cluster snapshots for tests of files and reports."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from kilonova.catalog.mig import geometry_named
from kilonova.scheduler.convert.gangs.podgangs import GangNotReady
from kilonova.scheduler.core.gpu.layout import Gpu, GpuLayout
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang, Member, single_pod_gang
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.model.pod_affinity import AffinityTerm, PodAffinityRules, PodSelector
from kilonova.scheduler.core.model.requests import GpuRequest, Shape
from kilonova.scheduler.core.model.requirements import Requirement
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.queueing.queues import QueueSpec
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from kilonova.scheduler.core.scoring.plugins import default_scoring
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot, take_snapshot

UNUSED_PATH = Path("here")
"""The path in errors about text that is in no file."""


def node(name: str, **labels: str) -> Node:
    mig = geometry_named("A100-40GB")
    layout = GpuLayout((Gpu(0, 40_000, mig=mig), Gpu(1, 40_000, mig=mig)), ((0, 1, 300),))
    amounts = {"cpu": 8000, "memory": 64 << 30, "pods": 10, "nvidia.com/gpu": 2}
    return Node(name, amounts, labels, (), layout)


def pending_gang(name: str, request: GpuRequest | None = None, **facts: Any) -> Gang:
    requests = {"cpu": 1000, "pods": 1}
    if request is not None and request.is_whole:
        requests["nvidia.com/gpu"] = request.count
    shape = replace(Shape(tuple(sorted(requests.items())), request), **facts)
    return single_pod_gang(Member(f"ns/{name}", shape, {"app": name}))


def example_snapshot() -> ClusterSnapshot:
    """A snapshot with everything whose order could depend on hashes."""
    cluster = Cluster()
    for name in ("b", "a"):
        # Labels with the names of fields of the file.
        cluster.snapshot.put_node(node(name, shape="round", layout="0"))
    apart = PodAffinityRules(
        anti_affinity=(
            AffinityTerm(
                PodSelector(frozenset({"ns", "other"}), (Requirement("app", "Exists"),)), "layout"
            ),
        )
    )
    planner = Planner(cluster, default_scoring(), PlannerPolicy())
    planner.schedule(
        [
            pending_gang("steady", GpuRequest(1)),
            pending_gang("slice", GpuRequest(1, profile="1g.5gb")),
        ],
        5.0,
    )
    pending = [
        pending_gang("whole", GpuRequest(2)),
        pending_gang("picky", avoided_nodes=frozenset({"a", "x", "y", "z"})),
        pending_gang("apart", pod_rules=apart),
        pending_gang("half", GpuRequest(1, 500)),
        pending_gang("far", GpuRequest(8)),
    ]
    not_yet = {"ns/g": GangNotReady("PodsNotFound", "group w needs 1 more pods")}
    specs = [QueueSpec("default", limit={"nvidia.com/gpu": 3500})]
    return take_snapshot(cluster, pending, specs, PlannerPolicy(), 50.0, not_ready=not_yet)
