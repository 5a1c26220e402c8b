"""Rows: how soon after a node is known dead its pods have replacements, and which others have.

Nodes die one after the other: they send no heartbeats any more, and their Ready condition becomes
Unknown after the grace period of Kubernetes, 50 s. That is where the time begins, as seen by a
client that watches; it ends when that client sees as many bound pods as before on other nodes.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import uvloop

from bench.comparison import compare_with_peer
from bench.fleet.inputs import Inputs
from bench.fleet.swap_clusters import StartCluster, SwapCluster, start_ours, start_peer
from bench.home.servers import NAMESPACE
from bench.report import Measurements, Quantity, Row
from kilonova.instances.resources import NODES, PODS, Node, Pod
from kilonova.kube import Client, Reflector, connect
from kilonova.kube.status import is_condition_true

MAX_SECONDS = 1.0
_GRACE_SECONDS = 50
_INTERVAL_SECONDS = 15
"""Between two deaths: kube-controller-manager taints one node in ten seconds."""
_TIMEOUT_SECONDS = 180
_OUT = {"metadata": {"annotations": {"sim.kilonova.dev/out": "true"}}}


def measure(inputs: Inputs, with_peer: bool) -> list[Row]:
    """The slowest swap, and how many pods of other nodes were replaced in all."""
    return compare_with_peer(
        lambda folder: _measure_cluster(start_ours, folder, inputs),
        (lambda folder: _measure_cluster(start_peer, folder, inputs)) if with_peer else None,
        None,
    )


def _measure_cluster(start_cluster: StartCluster, folder: Path, inputs: Inputs) -> Measurements:
    with start_cluster(folder, inputs) as cluster:
        return uvloop.run(_measure_swaps(cluster, inputs))


async def _measure_swaps(cluster: SwapCluster, inputs: Inputs) -> Measurements:
    async with connect(cluster.access.kubeconfig, field_manager="bench") as client:
        observer = _Observer(client, cluster.pods)
        tasks = [asyncio.create_task(each.run()) for each in (observer.nodes, observer.running)]
        try:
            await cluster.create(client, observer.wait_until_bound)
            before = observer.list_bound()
            dying = _select_nodes(before, inputs)
            deaths = asyncio.create_task(_kill_nodes(client, dying))
            seconds = await observer.wait_for_swaps(dying)
            await deaths
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    kept = {uid for uid, node in before.items() if node not in dying}
    replaced = len(kept - observer.list_bound().keys())
    title = f"swap of a dead node, {inputs.agents} agents"
    return {
        Quantity(
            f"{title}: all replacements bound, longest of {inputs.swaps}",
            "s",
            target=MAX_SECONDS,
        ): max(seconds),
        Quantity(f"{title}: pods of other nodes replaced", "", target=0): replaced,
    }


def _select_nodes(bound: dict[str, str], inputs: Inputs) -> list[str]:
    """The nodes with most pods."""
    nodes = list(bound.values())
    return sorted(set(nodes), key=lambda node: (-nodes.count(node), node))[: inputs.swaps]


async def _kill_nodes(client: Client, names: Sequence[str]) -> None:
    for number, name in enumerate(names):
        if number:
            await asyncio.sleep(_INTERVAL_SECONDS)
        await client.patch(NODES, name, _OUT)


@dataclass(slots=True)
class _Observer:
    """What a client sees of nodes and of the pods of one workload."""

    client: Client
    pods: int
    """As many pods does the workload have."""
    nodes: Reflector[Node] = field(init=False)
    running: Reflector[Pod] = field(init=False)
    _dead: dict[str, float] = field(default_factory=dict[str, float])
    """When nodes became known to be dead."""
    _swapped: dict[str, float] = field(default_factory=dict[str, float])
    """When all pods were bound elsewhere."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.nodes = Reflector(self.client, NODES)
        self.running = Reflector(self.client, PODS, namespace=NAMESPACE)
        self.nodes.store.add_event_handler(self._on_node)
        self.running.store.add_event_handler(self._on_pod)

    def list_bound(self) -> dict[str, str]:
        """The nodes of the pods that are bound, not terminating, and not on a dead node; by uid."""
        return {
            pod.metadata.uid: pod.spec.node_name
            for pod in self.running.store.objects()
            if pod.spec.node_name
            and pod.metadata.deletion_timestamp is None
            and pod.spec.node_name not in self._dead
        }

    async def wait_until_bound(self) -> None:
        """Wait until all pods are bound."""
        await self._wait_until(lambda: len(self.list_bound()) == self.pods, "pods to be bound")

    async def wait_for_swaps(self, nodes: Sequence[str]) -> list[float]:
        """For each node the seconds from its death being known to the last replacement bound."""
        extra = _GRACE_SECONDS + _INTERVAL_SECONDS * len(nodes)
        await self._wait_until(
            lambda: self._swapped.keys() >= set(nodes), "replacements to be bound", extra
        )
        return [self._swapped[each] - self._dead[each] for each in nodes]

    def _on_node(self, _: Node | None, new: Node | None) -> None:
        if new is None or new.metadata.name in self._dead or not new.status.conditions:
            return
        if not is_condition_true(new.status.conditions, "Ready"):
            self._dead[new.metadata.name] = time.monotonic()
            self._on_change()

    def _on_pod(self, _: Pod | None, __: Pod | None) -> None:
        self._on_change()

    def _on_change(self) -> None:
        waiting = self._dead.keys() - self._swapped.keys()
        if waiting and len(self.list_bound()) == self.pods:
            now = time.monotonic()
            self._swapped.update(dict.fromkeys(waiting, now))
        self._changed.set()

    async def _wait_until(self, condition: Callable[[], bool], what: str, extra: float = 0) -> None:
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS + extra):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise RuntimeError(
                f"waited {_TIMEOUT_SECONDS + extra:.0f} s for {what}: {len(self.list_bound())} of "
                f"{self.pods} are"
            ) from None
