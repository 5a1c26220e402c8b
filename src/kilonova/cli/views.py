"""What lists and `kilonova top` show: nodes with what they hold, gangs and workloads with how their
pods are. Pure, from the rows of the console; fields are their JSON, every one always there."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from kilonova.api.scheduling import DEFAULT_QUEUE
from kilonova.console.rows import (
    ENDED,
    CliqueRow,
    GangRow,
    NodeRow,
    OwnerRow,
    PodRow,
    QueueRow,
    SetRow,
)
from kilonova.console.workloadrows import GANG, SET, Parts, wanted_gpus, workload_row

_NUMBERS = re.compile("([0-9]+)")


@dataclass(frozen=True, slots=True)
class Tables:
    """Rows of a cluster; those that were not asked for are empty."""

    nodes: Sequence[NodeRow] = ()
    pods: Sequence[PodRow] = ()
    gangs: Sequence[GangRow] = ()
    sets: Sequence[SetRow] = ()
    cliques: Sequence[CliqueRow] = ()
    queues: Sequence[QueueRow] = ()
    deployments: Sequence[OwnerRow] = ()
    statefulsets: Sequence[OwnerRow] = ()
    jobs: Sequence[OwnerRow] = ()
    are_selected: bool = False
    """Whether the pods were chosen by labels, so that what has none of them was not."""

    @property
    def owners(self) -> dict[str, OwnerRow]:
        """Deployments, StatefulSets and Jobs, by what their pods name as their workload."""
        known = (*self.deployments, *self.statefulsets, *self.jobs)
        return {f"{each.kind}/{each.id}": each for each in known}


class NodeView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A node, and how much of it is held."""

    name: str
    status: str
    zone: str
    block: str
    rack: str
    kind: str
    product: str
    gpus: int
    gpus_held: float
    pods: int
    cpu: float
    memory: int
    price: float | None
    """USD per GPU and hour."""
    problem: str
    created: float | None


class GangView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A gang, and how its pods are."""

    namespace: str
    name: str
    phase: str
    pods: int
    ready: int
    gpus: float
    """Asked for; where only parts of devices are, those that are held."""
    queue: str
    nodes: list[str]
    topology: str
    """The label in one value of which it must stand, or `prefers …`."""
    score: float | None
    why: str
    """Why it has no place; empty if it has one."""
    set: str
    created: float | None


class WorkloadView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What somebody runs: a set, a Deployment, a Job, a lone pod; and how its pods are."""

    namespace: str
    kind: str
    name: str
    status: str
    pods: int
    """That it should have."""
    ready: int
    """Or that have succeeded."""
    gpus: float
    """Asked for; where only parts of devices are, those that are held."""
    queue: str
    nodes: list[str]
    restarts: int
    price: float | None
    """USD per hour, of the GPUs that it holds; None where it holds none with a known price."""
    why: str
    """Why it is not running as it should."""
    created: float | None


def node_views(tables: Tables) -> list[NodeView]:
    """Nodes by name."""
    standing: dict[str, list[PodRow]] = defaultdict(list)
    for pod in tables.pods:
        if pod.node and pod.phase not in ENDED:
            standing[pod.node].append(pod)
    return [_node_view(node, standing[node.id]) for node in sorted(tables.nodes, key=_by_number)]


def _node_view(node: NodeRow, pods: Sequence[PodRow]) -> NodeView:
    return NodeView(
        name=node.id,
        status=node.state,
        zone=node.zone,
        block=node.block,
        rack=node.rack,
        kind=node.kind,
        product=node.product,
        gpus=node.gpus,
        gpus_held=round(sum(pod.held for pod in pods), 3),
        pods=len(pods),
        cpu=node.cpu,
        memory=node.ram,
        price=node.price,
        problem=node.problem,
        created=node.created,
    )


def gang_views(tables: Tables) -> list[GangView]:
    """Gangs by namespace and name."""
    pods = {pod.id: pod for pod in tables.pods}
    return [_gang_view(gang, pods) for gang in sorted(tables.gangs, key=_by_id)]


def _gang_view(gang: GangRow, pods: dict[str, PodRow]) -> GangView:
    named = [name for group in gang.groups for name in group.pods]
    mine = [pods[name] for name in named if name in pods]
    namespace, name = gang.id.split("/", 1)
    return GangView(
        namespace=namespace,
        name=name,
        phase=gang.phase,
        pods=len(named),
        ready=sum(pod.ready for pod in mine),
        gpus=round(sum(map(wanted_gpus, mine)), 3),
        queue=queue_of_gang(gang, mine) or DEFAULT_QUEUE,
        nodes=_nodes(mine),
        topology=gang.pack or (f"prefers {gang.prefers}" if gang.prefers else ""),
        score=gang.score,
        why=gang.waits,
        set=gang.set.rpartition("/")[2],
        created=gang.created,
    )


def queue_of_gang(gang: GangRow, pods: Sequence[PodRow]) -> str:
    """As the scheduler reads it: what its first pod says counts where the gang says nothing. Empty
    for the usual queue."""
    return gang.queue or (pods[0].queue if pods else "")


def workload_views(tables: Tables) -> list[WorkloadView]:
    """Workloads by namespace, kind and name, as the console has them."""
    prices = {node.id: node.price for node in tables.nodes}
    views = (_workload_view(parts, prices) for parts in _workloads(tables))
    return sorted(views, key=lambda view: (view.namespace, view.kind, view.name))


def _workloads(tables: Tables) -> Iterator[Parts]:
    """What each workload is made of."""
    owners = tables.owners
    sets = {f"{SET}/{each.id}": each for each in tables.sets}
    gangs = {gang.id: gang for gang in tables.gangs}
    of_sets: dict[str, list[GangRow]] = defaultdict(list)
    for gang in tables.gangs:
        of_sets[gang.set].append(gang)
    cliques: dict[str, list[CliqueRow]] = defaultdict(list)
    for clique in tables.cliques:
        cliques[clique.set].append(clique)
    pods: dict[str, list[PodRow]] = {}
    if not tables.are_selected:
        members = {pod.gang for pod in tables.pods}
        lone = (gang.id for gang in of_sets[""] if gang.id not in members)
        pods = {id: [] for id in (*owners, *sets, *(f"{GANG}/{gang}" for gang in lone))}
    for pod in tables.pods:
        pods.setdefault(pod.workload, []).append(pod)
    for id, mine in pods.items():
        kind, _, rest = id.partition("/")
        if kind == SET:
            yield Parts(id, sets.get(id), None, of_sets[rest], cliques[rest], mine)
        else:
            named = [rest] if kind == GANG else dict.fromkeys(pod.gang for pod in mine)
            theirs = [gangs[each] for each in named if each in gangs]
            yield Parts(id, None, owners.get(id), theirs, (), mine)


def _workload_view(parts: Parts, prices: dict[str, float | None]) -> WorkloadView:
    row, pods = workload_row(parts), parts.pods
    kind, namespace, name = row.id.split("/", 2)
    costs = (pod.held * price for pod in pods if (price := prices.get(pod.node)) is not None)
    held = sum(costs)
    return WorkloadView(
        namespace=namespace,
        kind=kind,
        name=name,
        status=row.state,
        pods=row.pods,
        ready=row.ready,
        gpus=row.gpus,
        queue=row.queue or DEFAULT_QUEUE,
        nodes=_nodes(pods),
        restarts=sum(pod.restarts for pod in pods),
        price=round(held, 2) if held else None,
        why=row.why,
        created=row.created,
    )


def _nodes(pods: Iterable[PodRow]) -> list[str]:
    return sorted({pod.node for pod in pods if pod.node})


def _by_id(row: GangRow) -> str:
    return row.id


def _by_number(row: NodeRow) -> list[str | int]:
    return natural(row.id)


def natural(text: str) -> list[str | int]:
    """A text by which `rack-2` comes before `rack-10`."""
    return [int(part) if part.isdecimal() else part for part in _NUMBERS.split(text)]
