"""What lists and `kilonova top` show: nodes with what they hold, gangs and workloads with how their
pods are. Pure, from the rows of the console; fields are their JSON, every one always there."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from kilonova.api.scheduling import DEFAULT_QUEUE
from kilonova.cli.ownerrows import SET, OwnerRow, row_of_set
from kilonova.console.podstate import ENDED
from kilonova.console.rows import GangRow, NodeRow, PodRow, QueueRow, SetRow

_NUMBERS = re.compile("([0-9]+)")


@dataclass(frozen=True, slots=True)
class Tables:
    """Rows of a cluster; those that were not asked for are empty."""

    nodes: Sequence[NodeRow] = ()
    pods: Sequence[PodRow] = ()
    gangs: Sequence[GangRow] = ()
    sets: Sequence[SetRow] = ()
    queues: Sequence[QueueRow] = ()
    deployments: Sequence[OwnerRow] = ()
    statefulsets: Sequence[OwnerRow] = ()
    jobs: Sequence[OwnerRow] = ()

    @property
    def owners(self) -> list[OwnerRow]:
        """All that makes pods."""
        return [*map(row_of_set, self.sets), *self.deployments, *self.statefulsets, *self.jobs]


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
    ready: int
    gpus: float
    """Asked for; where only parts of devices are, those that are held."""
    queue: str
    nodes: list[str]
    restarts: int
    price: float | None
    """USD per hour, of the GPUs that it holds; None where it holds none with a known price."""
    why: str
    """Why it waits or failed."""
    created: float | None


def gpus_of(pod: PodRow) -> float:
    """How many GPUs a pod holds, parts of devices included; none once it has ended."""
    if not pod.node or pod.phase in ENDED:
        return 0.0
    return sum(share for _, share in pod.devices) if pod.devices else float(pod.gpus)


def _wanted(pod: PodRow) -> float:
    return float(pod.gpus) or gpus_of(pod)


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
        status=("Ready" if node.ready else "NotReady") + (",Cordoned" if node.cordoned else ""),
        zone=node.zone,
        block=node.block,
        rack=node.rack,
        kind=node.kind,
        product=node.product,
        gpus=node.gpus,
        gpus_held=round(sum(map(gpus_of, pods)), 3),
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
        gpus=round(sum(map(_wanted, mine)), 3),
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
    """Workloads by namespace, kind and name."""
    owners = {each.id: each for each in tables.owners}
    waits = {f"{SET}/{gang.set}": gang.waits for gang in tables.gangs if gang.waits}
    prices = {node.id: node.price for node in tables.nodes}
    pods: dict[str, list[PodRow]] = {name: [] for name in owners}
    for pod in tables.pods:
        pods.setdefault(pod.workload, []).append(pod)
    views = (
        _workload_view(name, mine, owners.get(name), waits.get(name, ""), prices)
        for name, mine in pods.items()
    )
    return sorted(views, key=lambda view: (view.namespace, view.kind, view.name))


def _workload_view(
    id: str,
    pods: Sequence[PodRow],
    owner: OwnerRow | None,
    waits: str,
    prices: dict[str, float | None],
) -> WorkloadView:
    kind, namespace, name = id.split("/", 2)
    costs = [gpus_of(pod) * price for pod in pods if (price := prices.get(pod.node)) is not None]
    held = sum(costs)
    created = [pod.created for pod in pods if pod.created is not None]
    queues = (*(pod.queue for pod in pods), owner.queue if owner else "")
    return WorkloadView(
        namespace=namespace,
        kind=kind,
        name=name,
        status=_status(pods, owner),
        pods=len(pods),
        ready=sum(pod.ready for pod in pods),
        gpus=round(sum(_wanted(pod) for pod in pods if pod.phase not in ENDED), 3),
        queue=next(filter(None, queues), DEFAULT_QUEUE),
        nodes=_nodes(pods),
        restarts=sum(pod.restarts for pod in pods),
        price=round(held, 2) if held else None,
        why=waits or (owner.why if owner else "") or _trouble(pods),
        created=owner.created if owner else min(created, default=None),
    )


def _status(pods: Sequence[PodRow], owner: OwnerRow | None) -> str:
    """One word: the worst that is true of it."""
    alive = [pod for pod in pods if pod.phase not in ENDED]
    if not pods:
        return owner.status if owner is not None else "Empty"
    if not alive:
        return "Failed" if any(pod.phase == "Failed" for pod in pods) else "Completed"
    if all(pod.state == "Terminating" for pod in alive):
        return "Terminating"
    if not all(pod.node for pod in alive):
        return "Waiting"
    if owner is not None and owner.updating:
        return "Updating"
    return "Running" if all(pod.ready for pod in alive) else "Starting"


def _trouble(pods: Iterable[PodRow]) -> str:
    told = (pod for pod in pods if not pod.ready and pod.phase != "Succeeded")
    return next((pod.message or pod.reason for pod in told if pod.message or pod.reason), "")


def _nodes(pods: Iterable[PodRow]) -> list[str]:
    return sorted({pod.node for pod in pods if pod.node})


def _by_id(row: GangRow) -> str:
    return row.id


def _by_number(row: NodeRow) -> list[str | int]:
    return natural(row.id)


def natural(text: str) -> list[str | int]:
    """A text by which `rack-2` comes before `rack-10`."""
    return [int(part) if part.isdecimal() else part for part in _NUMBERS.split(text)]
