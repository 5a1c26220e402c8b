"""Tasks arrive at the scheduler itself: the plan that places pods, one gang of one at a time."""

from collections.abc import Iterable

from bench.packing.play import Outcome
from bench.packing.traces import OVERLOAD, Nodes
from kilonova.scheduler.core.asks import GpuAsk, Shape
from kilonova.scheduler.core.cluster import Cluster
from kilonova.scheduler.core.demand import Ask
from kilonova.scheduler.core.devices import WHOLE, Gpu, Layout
from kilonova.scheduler.core.fit import LearntFit
from kilonova.scheduler.core.gangs import Member, single
from kilonova.scheduler.core.nodes import Node
from kilonova.scheduler.core.plan import Planner, Policy
from kilonova.scheduler.core.scores import default_scoring
from kilonova.scheduler.core.snapshot import GPU

_MANY_PODS = 1_000_000


def play_planned(nodes: Nodes, order: Iterable[Ask]) -> Outcome:
    """How full the cluster is when the scheduler has placed what came."""
    cluster, fit = Cluster(), LearntFit()
    for index, model in enumerate(nodes.models):
        cluster.snapshot.put_node(_node(nodes, index, model))
    planner = Planner(cluster, default_scoring(fit), Policy(evicts=False, reserve_after=1e18))
    asked = given = 0
    at_100: float | None = None
    for number, ask in enumerate(order):
        shape = shape_of(ask)
        fit.note(shape)
        fit.learn(cluster.snapshot)
        if planner.decide([single(Member(f"tasks/{number}", shape))], 0.0).placements:
            given += ask.amount
        asked += ask.amount
        if at_100 is None and asked >= nodes.capacity:
            at_100 = 100 * given / nodes.capacity
        if asked >= OVERLOAD * nodes.capacity:
            break
    at_130 = 100 * given / nodes.capacity
    return Outcome(at_130 if at_100 is None else at_100, at_130)


def shape_of(ask: Ask) -> Shape:
    """A task as a pod."""
    requests = {"cpu": ask.cpu, "memory": ask.memory, "pods": 1}
    if ask.gpus and not ask.shares:
        requests[GPU] = ask.gpus
    gpu = GpuAsk(ask.gpus, ask.milli, models=tuple(sorted(ask.models))) if ask.gpus else None
    return Shape(tuple(sorted(requests.items())), gpu)


def _node(nodes: Nodes, index: int, model: str) -> Node:
    count = int((nodes.left.gpus[index] == WHOLE).sum())
    allocatable = {
        "cpu": int(nodes.left.cpu[index]),
        "memory": int(nodes.left.memory[index]),
        "pods": _MANY_PODS,
        GPU: count,
    }
    layout = Layout(tuple(Gpu(device, model=model) for device in range(count)))
    return Node(f"node-{index:05}", allocatable, layout=layout)
