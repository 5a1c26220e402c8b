"""Random small clusters, gangs and queues of every kind."""

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st

from kilonova.catalog.mig import geometry_named
from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.gpu.layout import Gpu, GpuLayout
from kilonova.scheduler.core.model.gangs import (
    Gang,
    GangAntiAffinity,
    Group,
    GroupBundle,
    Member,
    PackConstraint,
    SegmentConstraint,
)
from kilonova.scheduler.core.model.nodes import Node, Taint
from kilonova.scheduler.core.model.requests import (
    GpuPreference,
    GpuRequest,
    NodeSelectorTerm,
    Shape,
    Toleration,
    host_port_requests,
)
from kilonova.scheduler.core.model.requirements import Requirement
from kilonova.scheduler.core.queueing.queues import QueueSpec
from kilonova.scheduler.core.scoring.plugins import (
    ScorePlugin,
    Scoring,
    balance_score,
    topology_score,
)
from tests.scheduler.core.support.clusters import BLOCK, RACK, tight

ZONE = "example.com/zone"
SCORING = Scoring(
    (
        ScorePlugin("topology", 40, topology_score),
        ScorePlugin("fit", 35, tight),
        ScorePlugin("balance", 25, balance_score),
    )
)
"""Does not learn: equal clusters have equal scores."""
LEVELS = (BLOCK, RACK)
QUEUES = ("default", "a", "b", "c")
BUDGETS = ("ns/tight", "ns/loose")


def _layout(count: int, *, links: Sequence[tuple[int, int]] = (), **facts: object) -> GpuLayout:
    gpus = tuple(replace(Gpu(index), **facts) for index in range(count))
    return GpuLayout(gpus, tuple((a, b, 300) for a, b in links))


def _ill(layout: GpuLayout, index: int) -> GpuLayout:
    gpus = list(layout.gpus)
    gpus[index] = replace(gpus[index], healthy=False)
    return GpuLayout(tuple(gpus), layout.links)


PAIRS = _layout(4, links=((0, 1), (2, 3)), memory=40_000, model="NVIDIA-A100-SXM4-40GB")
SWITCHED = _layout(4, port=900, memory=80_000, model="NVIDIA-H100-80GB-HBM3")
SPLIT = _layout(2, memory=40_000, mig=geometry_named("A100-40GB"))
SMALL = _layout(1, memory=24_000, mig=geometry_named("A30-24GB"))
KINDS: tuple[tuple[int, GpuLayout | None], ...] = (
    (0, None),
    (1, None),
    (4, None),
    (4, PAIRS),
    (3, _ill(PAIRS, 1)),
    (4, _ill(PAIRS, 2)),
    (4, SWITCHED),
    (2, SPLIT),
    (1, _ill(SPLIT, 0)),
    (1, SMALL),
    (2, SWITCHED),
    (2, GpuLayout()),
)
"""The allocatable GPUs of a node, and its layout; the two need not agree."""


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    gpus, layout = draw(st.sampled_from(KINDS))
    labels: dict[str, str] = {}
    for key, values in ((BLOCK, 2), (RACK, 3), (ZONE, 2)):
        value = draw(st.integers(0, values))
        if value:
            labels[key] = f"{key[-4:]}{value}"
    cpu = draw(st.sampled_from((4000, 0, 2000, 8000)))
    amounts = {"cpu": cpu, "memory": 16 << 30, "pods": draw(st.sampled_from((10, 3)))}
    if gpus:
        amounts[GPU] = gpus
    if draw(st.integers(0, 3)) == 3:
        amounts["nvidia.com/mig-1g.5gb"] = 3
    taints = draw(st.sampled_from(TAINTS))
    return Node(name, amounts, labels, taints, layout)


TAINTS: tuple[tuple[Taint, ...], ...] = (
    (),
    (),
    (),
    (Taint("dedicated", "NoSchedule"),),
    (Taint("slow", "PreferNoSchedule"),),
)


def shape_of(cpu: int = 1000, gpu_request: GpuRequest | None = None, memory: int = 0) -> Shape:
    requests = {"pods": 1, "cpu": cpu, "memory": memory}
    if gpu_request is not None and gpu_request.is_whole:
        requests[GPU] = gpu_request.count
    return Shape(tuple(sorted(requests.items())), gpu_request)


SINGLE = shape_of(500, GpuRequest(1))
SHAPES: tuple[Shape, ...] = (
    SINGLE,
    shape_of(),
    shape_of(0),
    shape_of(1000, GpuRequest(2)),
    shape_of(0, GpuRequest(4)),
    shape_of(0, GpuRequest(2, preference=GpuPreference.NVLINK_REQUIRED)),
    shape_of(0, GpuRequest(2, bandwidth=200)),
    shape_of(0, GpuRequest(1, 500)),
    shape_of(0, GpuRequest(1, 300)),
    shape_of(0, GpuRequest(2, 400)),
    shape_of(0, GpuRequest(1, 0, memory=10_000)),
    shape_of(0, GpuRequest(1, memory=30_000)),
    shape_of(0, GpuRequest(1, models=("A100",))),
    shape_of(0, GpuRequest(1, profile="1g.5gb")),
    shape_of(0, GpuRequest(2, profile="1g.5gb")),
    shape_of(0, GpuRequest(1, profile="3g.20gb")),
    shape_of(0, GpuRequest(1, profile="1g.6gb+me")),
    shape_of(0, GpuRequest(2, profile="2g.10gb", memory=30_000)),
    shape_of(100, None, memory=1 << 32),
    Shape((("cpu", 100), ("pods", 1), *host_port_requests(80, "TCP").items())),
    replace(SINGLE, node_selector=((RACK, "rack1"),)),
    replace(SINGLE, required_node_terms=((NodeSelectorTerm((Requirement(BLOCK, "Exists"),)),),)),
    replace(SINGLE, tolerations=(Toleration("dedicated", "Exists"),)),
    replace(SINGLE, avoided_nodes=frozenset({"n0", "gone"})),
    replace(SINGLE, requests=(*SINGLE.requests, ("example.com/unheard-of", 1))),
)
PLAIN = (SINGLE, shape_of(), shape_of(1000, GpuRequest(2)), shape_of(0, GpuRequest(1, 500)))

PACKS = (
    PackConstraint(),
    PackConstraint(),
    PackConstraint(),
    PackConstraint(required=RACK),
    PackConstraint(required=BLOCK),
    PackConstraint(preferred=RACK),
    PackConstraint(required=BLOCK, preferred=RACK),
    PackConstraint(required=ZONE),
)


@st.composite
def groups(draw: st.DrawFn, gang: str, index: int, most: int = 4) -> Group:
    name = f"{gang}.{index}"
    count = draw(st.integers(1, most))
    minimum = draw(st.integers(0, count)) if draw(st.booleans()) else count
    first = draw(st.sampled_from(SHAPES if draw(st.booleans()) else PLAIN))
    shapes = [first] * count
    if count > 1 and draw(st.integers(0, 3)) == 3:
        shapes[draw(st.integers(0, count - 1))] = draw(st.sampled_from(PLAIN))
    guards = draw(st.sampled_from(((), (), (), BUDGETS[:1], BUDGETS[1:], BUDGETS)))
    members = tuple(
        Member(f"ns/{name}-{rank}", shape, budgets=guards) for rank, shape in enumerate(shapes)
    )
    segments = draw(
        st.sampled_from((None, None, None, SegmentConstraint(2, RACK), SegmentConstraint(3, BLOCK)))
    )
    return Group(name, members, minimum, draw(st.sampled_from(PACKS)), segments)


@st.composite
def gangs(draw: st.DrawFn, name: str, created: float = 0.0, most: int = 3) -> Gang:
    parts = tuple(draw(groups(name, index)) for index in range(draw(st.integers(1, most))))
    bundles: tuple[GroupBundle, ...] = ()
    if draw(st.integers(0, 3)) == 3:
        inside = tuple(part.name for part in parts[: draw(st.integers(1, len(parts)))])
        bundles = (GroupBundle((*inside, "unheard-of"), draw(st.sampled_from(PACKS))),)
    apart: GangAntiAffinity | None = None
    if draw(st.integers(0, 3)) == 3:
        others = tuple(f"n{index}" for index in range(draw(st.integers(0, 2))))
        apart = GangAntiAffinity(draw(st.sampled_from((RACK, BLOCK))), draw(st.booleans()), others)
    return Gang(
        name,
        parts,
        draw(st.sampled_from(PACKS)),
        bundles,
        apart,
        queue=draw(st.sampled_from(QUEUES)),
        priority=draw(st.integers(0, 2)),
        created=created,
        duration=draw(st.sampled_from((None, 50.0, 200.0, 1000.0))),
        preemptible=draw(st.integers(0, 4)) < 4,
        base_nodes=draw(st.sampled_from(((), (), (), ("n1",)))),
    )


@st.composite
def queues(draw: st.DrawFn) -> list[QueueSpec]:
    """Queues `a` and `b`, below one or not, and `c`; a cycle now and then."""
    amounts: st.SearchStrategy[dict[str, int]] = st.dictionaries(
        st.sampled_from([GPU, "cpu"]), st.sampled_from([0, 1000, 2000, 4000]), max_size=2
    )
    below = draw(st.booleans())
    loop = draw(st.integers(0, 9)) == 9
    specs = [QueueSpec("top", limit=draw(amounts), parent="a" if loop else "")]
    for name in QUEUES[1:]:
        specs.append(
            QueueSpec(
                name,
                "top" if below and name != "c" else "",
                draw(amounts),
                draw(amounts) if draw(st.integers(0, 2)) == 2 else {},
                weight=draw(st.integers(0, 2)),
                priority=draw(st.integers(0, 1)),
                preempt_min_runtime=draw(st.sampled_from((None, 30.0))),
                reclaim_min_runtime=draw(st.sampled_from((None, 30.0))),
            )
        )
    return specs
