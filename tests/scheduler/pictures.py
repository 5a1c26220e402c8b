"""Small clusters at a moment, for tests of what is kept of them and told about them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from kilonova.scheduler.core.asks import GpuAsk, Shape
from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.devices import Gpu, Layout
from kilonova.scheduler.core.gangs import Gang, Member, single
from kilonova.scheduler.core.mig_parts import known_geometry
from kilonova.scheduler.core.nodes import Node
from kilonova.scheduler.core.peers import Kind, Peers, Term
from kilonova.scheduler.core.plan import Planner, Policy
from kilonova.scheduler.core.queues import QueueSpec
from kilonova.scheduler.core.requirements import Requirement
from kilonova.scheduler.core.scores import default_scoring
from kilonova.scheduler.picture import Picture, picture_of
from kilonova.scheduler.reading.gangs import NotYet

HERE = Path("here")
"""Where a text is said to come from that is in no file."""


def node(name: str, **labels: str) -> Node:
    mig = known_geometry("A100-40GB")
    layout = Layout((Gpu(0, 40_000, mig=mig), Gpu(1, 40_000, mig=mig)), ((0, 1, 300),))
    amounts = {"cpu": 8000, "memory": 64 << 30, "pods": 10, "nvidia.com/gpu": 2}
    return Node(name, amounts, labels, (), layout)


def waits(name: str, ask: GpuAsk | None = None, **facts: Any) -> Gang:
    requests = {"cpu": 1000, "pods": 1}
    if ask is not None and ask.whole:
        requests["nvidia.com/gpu"] = ask.count
    shape = replace(Shape(tuple(sorted(requests.items())), ask), **facts)
    return single(Member(f"ns/{name}", shape, {"app": name}))


def example() -> Picture:
    """A little of everything whose order could depend on hashes."""
    cluster = Cluster()
    for name in ("b", "a"):
        # Labels that are called as fields of the file are.
        cluster.snapshot.put_node(node(name, shape="round", layout="0"))
    apart = Peers(
        apart=(Term(Kind(frozenset({"ns", "other"}), (Requirement("app", "Exists"),)), "layout"),)
    )
    planner = Planner(cluster, default_scoring(), Policy())
    planner.decide([waits("stands", GpuAsk(1)), waits("slice", GpuAsk(1, profile="1g.5gb"))], 5.0)
    waiting = [
        waits("whole", GpuAsk(2)),
        waits("picky", avoided=frozenset({"a", "x", "y", "z"})),
        waits("apart", peers=apart),
        waits("half", GpuAsk(1, 500)),
        waits("far", GpuAsk(8)),
    ]
    not_yet = {"ns/g": NotYet("PodsNotThere", "group w waits for 1 more pods")}
    specs = [QueueSpec("default", limit={"nvidia.com/gpu": 3500})]
    return picture_of(cluster, waiting, specs, Policy(), 50.0, not_yet=not_yet)
