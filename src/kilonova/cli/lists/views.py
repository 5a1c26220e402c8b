"""Views that lists and `kilonova top` show of nodes, gangs and workloads.

Pure functions of the console's rows. The fields of a view are its JSON; all are always present.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import msgspec

from kilonova.api.scheduling import DEFAULT_QUEUE
from kilonova.console.rows.model import (
    TERMINAL_PHASES,
    CliqueRow,
    GangRow,
    NodeRow,
    OwnerRow,
    PodRow,
    SetRow,
)
from kilonova.console.rows.workloads import GANG, SET, WorkloadParts, requested_gpus, workload_row
from kilonova.scheduler.console import QueueRow

_NUMBERS = re.compile("([0-9]+)")


@dataclass(frozen=True, slots=True)
class Tables:
    """Rows of a cluster; a table that was not read is empty."""

    nodes: Sequence[NodeRow] = ()
    pods: Sequence[PodRow] = ()
    gangs: Sequence[GangRow] = ()
    sets: Sequence[SetRow] = ()
    cliques: Sequence[CliqueRow] = ()
    queues: Sequence[QueueRow] = ()
    deployments: Sequence[OwnerRow] = ()
    statefulsets: Sequence[OwnerRow] = ()
    jobs: Sequence[OwnerRow] = ()
    gpuworkloads: Sequence[OwnerRow] = ()
    has_label_selector: bool = False
    """Whether pods were selected by labels: owners without such pods are not listed then."""

    @property
    def owners(self) -> dict[str, OwnerRow]:
        """Deployments, StatefulSets, Jobs and GPUWorkloads that are workloads of their own, by
        workload id."""
        rows = (*self.deployments, *self.statefulsets, *self.jobs, *self.gpuworkloads)
        return {f"{each.kind}/{each.id}": each for each in rows if not each.workload}


class NodeView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A node and its GPUs in use."""

    name: str
    status: str
    zone: str
    block: str
    rack: str
    kind: str
    product: str
    gpus: int
    gpus_allocated: float
    pods: int
    cpu: float
    memory: int
    machine: str
    """The machine type."""
    price: float | None
    """USD per GPU and hour."""
    node_price: float | None
    """USD per hour of the node, with its GPUs."""
    problem: str
    created: float | None


class GangView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A gang and the state of its pods."""

    namespace: str
    name: str
    phase: str
    pods: int
    ready: int
    gpus: float
    """Requested; for shares of devices, the shares that are allocated."""
    queue: str
    nodes: list[str]
    topology: str
    """The node label that all its pods must share a value of, or `prefers …`."""
    score: float | None
    why: str
    """Why it is not scheduled; empty if it is."""
    set: str
    created: float | None


class WorkloadView(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """A PodCliqueSet, Deployment, StatefulSet, Job, gang or single pod, with the state of its
    pods."""

    namespace: str
    kind: str
    name: str
    status: str
    pods: int
    """Desired."""
    ready: int
    """Ready or succeeded."""
    gpus: float
    """Requested; for shares of devices, the shares that are allocated."""
    queue: str
    nodes: list[str]
    restarts: int
    price: float | None
    """USD per hour of the GPUs that it uses; None if it uses none with a known price."""
    unpriced_gpus: float
    """The GPUs that it uses whose price is unknown; they are not part of `price`."""
    why: str
    """Why it is not running as specified."""
    created: float | None


def node_views(tables: Tables) -> list[NodeView]:
    """Nodes by name."""
    by_node: dict[str, list[PodRow]] = defaultdict(list)
    for pod in tables.pods:
        if pod.node and pod.phase not in TERMINAL_PHASES:
            by_node[pod.node].append(pod)
    return [_node_view(node, by_node[node.id]) for node in sorted(tables.nodes, key=_node_sort_key)]


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
        gpus_allocated=round(sum(pod.allocated_gpus for pod in pods), 3),
        pods=len(pods),
        cpu=node.cpu,
        memory=node.memory,
        machine=node.machine,
        price=node.price,
        node_price=node.node_price,
        problem=node.problem,
        created=node.created,
    )


def gang_views(tables: Tables) -> list[GangView]:
    """Gangs by namespace and name."""
    pods = {pod.id: pod for pod in tables.pods}
    return [_gang_view(gang, pods) for gang in sorted(tables.gangs, key=_gang_sort_key)]


def _gang_view(gang: GangRow, pods: dict[str, PodRow]) -> GangView:
    references = [name for group in gang.groups for name in group.pods]
    members = [pods[name] for name in references if name in pods]
    namespace, name = gang.id.split("/", 1)
    return GangView(
        namespace=namespace,
        name=name,
        phase=gang.phase,
        pods=len(references),
        ready=sum(pod.ready for pod in members),
        gpus=round(sum(map(requested_gpus, members)), 3),
        queue=_gang_queue(gang, members) or DEFAULT_QUEUE,
        nodes=_node_names(members),
        topology=gang.required_topology
        or (f"prefers {gang.preferred_topology}" if gang.preferred_topology else ""),
        score=gang.score,
        why=gang.pending_reason,
        set=gang.set.rpartition("/")[2],
        created=gang.created,
    )


def _gang_queue(gang: GangRow, pods: Sequence[PodRow]) -> str:
    """The queue of the gang, else that of its first pod, as the scheduler reads it. Empty for the
    default queue."""
    return gang.queue or (pods[0].queue if pods else "")


def workload_views(tables: Tables) -> list[WorkloadView]:
    """Workloads by namespace, kind and name, the same as in the console."""
    prices = {node.id: node.price for node in tables.nodes}
    views = (_workload_view(parts, prices) for parts in _group_by_workload(tables))
    return sorted(views, key=lambda view: (view.namespace, view.kind, view.name))


def _group_by_workload(tables: Tables) -> Iterator[WorkloadParts]:
    """The rows of each workload."""
    owners = tables.owners
    sets = {f"{SET}/{each.id}": each for each in tables.sets if not each.workload}
    gangs = {gang.id: gang for gang in tables.gangs}
    gangs_by_set: dict[str, list[GangRow]] = defaultdict(list)
    for gang in tables.gangs:
        gangs_by_set[gang.set].append(gang)
    cliques_by_set: dict[str, list[CliqueRow]] = defaultdict(list)
    for clique in tables.cliques:
        cliques_by_set[clique.set].append(clique)
    members: dict[str, list[SetRow | OwnerRow]] = defaultdict(list)
    makers = (tables.deployments, tables.statefulsets, tables.jobs, tables.gpuworkloads)
    for each in (*tables.sets, *chain.from_iterable(makers)):
        if each.workload:
            members[each.workload].append(each)
    pods_by_workload: dict[str, list[PodRow]] = {}
    if not tables.has_label_selector:
        with_pods = {pod.gang for pod in tables.pods}
        without_pods = (gang.id for gang in gangs_by_set[""] if gang.id not in with_pods)
        ids = (*owners, *sets, *members, *(f"{GANG}/{gang}" for gang in without_pods))
        pods_by_workload = {id: [] for id in ids}
    for pod in tables.pods:
        pods_by_workload.setdefault(pod.workload, []).append(pod)
    for id, pods in pods_by_workload.items():
        kind, _, key = id.partition("/")
        made = members.get(id, ())
        if kind == SET:
            yield WorkloadParts(
                id, sets.get(id), None, gangs_by_set[key], cliques_by_set[key], pods, made
            )
        else:
            of_sets = (gangs_by_set[each.id] for each in made if isinstance(each, SetRow))
            of_pods = [key] if kind == GANG else (pod.gang for pod in pods)
            names = dict.fromkeys((*of_pods, *(each.id for each in chain.from_iterable(of_sets))))
            own_gangs = [gangs[each] for each in names if each in gangs]
            yield WorkloadParts(id, None, owners.get(id), own_gangs, (), pods, made)


def _workload_view(parts: WorkloadParts, prices: dict[str, float | None]) -> WorkloadView:
    row, pods = workload_row(parts), parts.pods
    kind, namespace, name = row.id.split("/", 2)
    cost = sum(
        pod.allocated_gpus * price for pod in pods if (price := prices.get(pod.node)) is not None
    )
    unpriced = sum(pod.allocated_gpus for pod in pods if prices.get(pod.node) is None)
    return WorkloadView(
        namespace=namespace,
        kind=kind,
        name=name,
        status=row.state,
        pods=row.pods,
        ready=row.ready,
        gpus=row.gpus,
        queue=row.queue or DEFAULT_QUEUE,
        nodes=_node_names(pods),
        restarts=sum(pod.restarts for pod in pods),
        price=round(cost, 2) if cost else None,
        unpriced_gpus=round(unpriced, 3),
        why=row.why,
        created=row.created,
    )


def _node_names(pods: Iterable[PodRow]) -> list[str]:
    return sorted({pod.node for pod in pods if pod.node})


def _gang_sort_key(row: GangRow) -> str:
    return row.id


def _node_sort_key(row: NodeRow) -> list[str | int]:
    return natural_sort_key(row.id)


def natural_sort_key(text: str) -> list[str | int]:
    """A sort key by which `rack-2` comes before `rack-10`."""
    return [int(part) if part.isdecimal() else part for part in _NUMBERS.split(text)]
