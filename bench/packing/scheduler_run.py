"""Tasks arrive at the scheduler's own planner, one gang of one pod at a time."""

from collections.abc import Iterable

from bench.packing.simulation import UtilizationResult
from bench.packing.traces import OVERLOAD, TraceNodes
from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.gpu.layout import MILLI_PER_GPU, Gpu, GpuLayout
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Member, single_pod_gang
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.model.requests import GpuRequest, Shape
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from kilonova.scheduler.core.scoring.demand import PackingRequest
from kilonova.scheduler.core.scoring.packing_fit import LearnedPackingFit
from kilonova.scheduler.core.scoring.plugins import default_scoring

_UNLIMITED_PODS = 1_000_000


def simulate_scheduler(nodes: TraceNodes, order: Iterable[PackingRequest]) -> UtilizationResult:
    """The utilization after the scheduler has placed the tasks."""
    cluster, fit = Cluster(), LearnedPackingFit()
    for index, model in enumerate(nodes.models):
        cluster.snapshot.put_node(_build_node(nodes, index, model))
    planner = Planner(
        cluster,
        default_scoring(fit),
        PlannerPolicy(preemption_enabled=False, reserve_after=1e18),
    )
    requested = allocated = 0
    at_100: float | None = None
    for number, request in enumerate(order):
        shape = build_shape(request)
        fit.record_arrival(shape)
        fit.learn(cluster.snapshot)
        if planner.schedule([single_pod_gang(Member(f"tasks/{number}", shape))], 0.0).placements:
            allocated += request.gpu_milli
        requested += request.gpu_milli
        if at_100 is None and requested >= nodes.capacity:
            at_100 = 100 * allocated / nodes.capacity
        if requested >= OVERLOAD * nodes.capacity:
            break
    at_130 = 100 * allocated / nodes.capacity
    return UtilizationResult(at_130 if at_100 is None else at_100, at_130)


def build_shape(request: PackingRequest) -> Shape:
    """The pod of a task."""
    requests = {"cpu": request.cpu, "memory": request.memory, "pods": 1}
    if request.gpus and not request.is_shared:
        requests[GPU] = request.gpus
    gpu = (
        GpuRequest(request.gpus, request.milli, models=tuple(sorted(request.models)))
        if request.gpus
        else None
    )
    return Shape(tuple(sorted(requests.items())), gpu)


def _build_node(nodes: TraceNodes, index: int, model: str) -> Node:
    count = int((nodes.free.gpus[index] == MILLI_PER_GPU).sum())
    allocatable = {
        "cpu": int(nodes.free.cpu[index]),
        "memory": int(nodes.free.memory[index]),
        "pods": _UNLIMITED_PODS,
        GPU: count,
    }
    layout = GpuLayout(tuple(Gpu(device, model=model) for device in range(count)))
    return Node(f"node-{index:05}", allocatable, layout=layout)
