"""How long the topology service takes to answer, without the network."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from random import Random
from statistics import quantiles
from typing import Any

import msgspec

from bench.gpu.inputs import Inputs
from bench.report import Quantity, Row
from kilonova.api.podgang import PodGang
from kilonova.api.scheduling import Queue
from kilonova.gpu.topologyservice.handlers import TopologyHandlers
from kilonova.gpu.topologyservice.index import TopologyIndex
from kilonova.gpu.topologyservice.service import TopologyService
from kilonova.kube import Request, Store
from kilonova.scheduler.cache.scheduler_cache import SchedulerCache
from kilonova.scheduler.cache.sources import ClusterStores
from kilonova.scheduler.core.scoring.plugins import default_scoring
from kilonova.scheduler.objects.core_v1 import Node, Pod

_GPUS = 8
_TOPOLOGY = msgspec.json.encode(
    {
        "product": "NVIDIA H100 80GB HBM3",
        "memory": 81559,
        "architecture": "Hopper",
        "port": 900,
        "mig": "H100-80GB",
        "gpus": [{"numa": index // 4, "pcie": str(index // 2)} for index in range(_GPUS)],
    }
).decode()


def measure(inputs: Inputs) -> list[Row]:
    """The p99 of each question, after a pod has come or gone somewhere."""
    return asyncio.run(_measure(inputs))


async def _measure(inputs: Inputs) -> list[Row]:
    cluster = _Cluster(inputs.topology_gpus // _GPUS)
    size = f"{inputs.topology_gpus:,} GPUs"
    questions: list[tuple[str, Callable[[], Request]]] = [
        ("a node", lambda: Request("GET", f"/v1/topology/{cluster.random_node()}")),
        ("whole cluster", lambda: Request("GET", "/v1/topology")),
        ("best set of 8", lambda: Request("GET", "/v1/best-set", [("gpus", "8")])),
        (
            "best set of 4, NVLink required",
            lambda: Request(
                "GET", "/v1/best-set", [("gpus", "4"), ("preference", "NVLinkRequired")]
            ),
        ),
        ("best set of 64", lambda: Request("GET", "/v1/best-set", [("gpus", "64")])),
    ]
    rows: list[Row] = []
    for name, build in questions:
        target = 1.0 if name != "best set of 64" else None
        quantity = Quantity(f"topology query, {size}: {name}, p99", "ms", target=target)
        rows.append(Row(quantity, await _time(cluster, build, inputs.topology_queries)))
    return rows


async def _time(cluster: "_Cluster", build: Callable[[], Request], count: int) -> float:
    handlers = TopologyHandlers(cluster.service, None).routes()
    await _ask(handlers, build())
    times: list[float] = []
    for _ in range(count):
        cluster.replace_pod()
        request = build()
        started = time.perf_counter()
        await _ask(handlers, request)
        times.append((time.perf_counter() - started) * 1e3)
    return quantiles(times, n=100)[98]


async def _ask(handlers: Any, request: Request) -> None:
    path = request.path if request.path in handlers else "/v1/topology/"
    reply = await handlers[path](request)
    assert reply.status == 200, reply.body


class _Cluster:
    """Nodes with eight GPUs, three quarters of them with a pod that uses four or eight."""

    def __init__(self, nodes: int) -> None:
        self._random = Random(1)
        self._count = nodes
        self._nodes, self._pods = Store(Node), Store(Pod)
        stores = ClusterStores(self._nodes, self._pods, Store(PodGang), Store(Queue))
        now = datetime(2026, 1, 1, tzinfo=UTC)
        cache = SchedulerCache(stores, lambda: now, lambda: None)
        snapshot = cache.cluster.snapshot
        index = TopologyIndex(snapshot, self._nodes)
        self.service = TopologyService(snapshot, index, default_scoring(), lambda: True)
        for number in range(nodes):
            self._nodes.put(msgspec.convert(_node(number), Node))
        for number in range(nodes * 3 // 4):
            self._pods.put(msgspec.convert(_pod(number, number, 4 + 4 * (number % 2)), Pod))
        self._next = nodes
        self._alive = list(range(nodes * 3 // 4))

    def random_node(self) -> str:
        """The name of a node."""
        return f"node-{self._random.randrange(self._count)}"

    def replace_pod(self) -> None:
        """A pod ends, and another one begins on the same node."""
        at = self._random.randrange(len(self._alive))
        node = at
        self._pods.remove(("default", f"pod-{self._alive[at]}"))
        self._pods.put(msgspec.convert(_pod(self._next, node, self._random.choice((4, 8))), Pod))
        self._alive[at] = self._next
        self._next += 1


def _node(number: int) -> dict[str, Any]:
    amounts = {"cpu": "192", "memory": "2Ti", "pods": "110", "nvidia.com/gpu": str(_GPUS)}
    return {
        "metadata": {
            "name": f"node-{number}",
            "uid": f"node-{number}",
            "resourceVersion": "1",
            "labels": {
                "topology.kubernetes.io/zone": f"zone-{number % 3}",
                "kilonova.dev/rack": f"rack-{number // 16}",
            },
            "annotations": {"gpu.kilonova.dev/topology": _TOPOLOGY},
        },
        "spec": {},
        "status": {"allocatable": amounts},
    }


def _pod(number: int, node: int, gpus: int) -> dict[str, Any]:
    devices = ",".join(map(str, range(gpus)))
    return {
        "metadata": {
            "name": f"pod-{number}",
            "namespace": "default",
            "uid": f"pod-{number}",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {"gpu.kilonova.dev/devices": devices},
        },
        "spec": {
            "nodeName": f"node-{node}",
            "containers": [
                {"name": "main", "resources": {"requests": {"nvidia.com/gpu": str(gpus)}}}
            ],
        },
    }
