"""A scheduler for tests that honours PodGangs, on any API server."""

from typing import Any

import msgspec

from kilonova.api.grove import names
from kilonova.api.meta import Metadata
from kilonova.kube import (
    ApiStatusError,
    Client,
    Controller,
    Key,
    Reflector,
    Resource,
    Runnable,
    Watch,
)
from kilonova.workloads.resources import GANGS
from tests.workloads.scenarios.support.gang_placement import (
    FreeCapacity,
    GangState,
    WaitingPod,
    place_gang,
)

SCHEDULERS = ("kai-scheduler", "kilonova-scheduler")
_UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_SINGLE_KEY: Key = ("", "all")


class Pod(msgspec.Struct):
    metadata: Metadata
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


class Node(msgspec.Struct):
    metadata: Metadata
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


PODS = Resource("", "v1", "pods", "Pod", True, Pod)
NODES = Resource("", "v1", "nodes", "Node", False, Node)


class GangBinder:
    """Binds pods of gangs that name one of `SCHEDULERS`; marks others unschedulable."""

    def __init__(self, client: Client, prefix: str = "") -> None:
        """Of the nodes, only those whose names begin with `prefix` are used."""
        self.client = client
        self.prefix = prefix
        self.pods = Reflector(client, PODS)
        self.nodes = Reflector(client, NODES)
        self.gangs = Reflector(client, GANGS)
        self._assumed: dict[str, str] = {}
        """Nodes by the uids of pods that were bound; the cache may not show it yet."""
        watches: list[Watch[Any]] = [
            Watch(self.pods, _map_to_single_key),
            Watch(self.nodes, _map_to_single_key),
            Watch(self.gangs, _map_to_single_key),
        ]
        self.controller = Controller("gang-binder", self.reconcile, watches)

    @property
    def runnables(self) -> list[Runnable]:
        return [self.pods, self.nodes, self.gangs, self.controller]

    def is_node_usable(self, name: str) -> bool:
        """Whether it knows a node that lets pods on."""
        node = self.nodes.store.get(("", name))
        return node is not None and not node.spec.get("unschedulable")

    async def reconcile(self, _: Key) -> None:
        free = self._compute_free_capacity()
        gangs = sorted(
            self.gangs.store.objects(),
            key=lambda gang: (gang.spec.base_ref is not None, gang.metadata.name),
        )
        for gang in gangs:
            await self._place_gang(gang.metadata.namespace, self._build_gang(gang), free)

    async def _place_gang(self, namespace: str, gang: GangState, capacity: FreeCapacity) -> None:
        found = place_gang(gang, capacity)
        for name, node in found.items():
            try:
                await self.client.bind(name, namespace, node)
                self._assume_pod(namespace, name, node)
            except ApiStatusError as error:
                if error.code not in (404, 409):
                    raise
        for name in gang.waiting.keys() - found.keys():
            await self._mark_unschedulable(namespace, name)

    async def _mark_unschedulable(self, namespace: str, name: str) -> None:
        pod = self.pods.store.get((namespace, name))
        conditions = pod.status.get("conditions", []) if pod else []
        if pod is None or any(each.get("reason") == "Unschedulable" for each in conditions):
            return
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "the gang does not fit",
        }
        body = {
            "metadata": {"uid": pod.metadata.uid},
            "status": {"conditions": [*conditions, condition]},
        }
        try:
            await self.client.patch(PODS, name, body, namespace, subresource="status")
        except ApiStatusError as error:
            if error.code not in (404, 409):
                raise

    def _assume_pod(self, namespace: str, name: str, node: str) -> None:
        pod = self.pods.store.get((namespace, name))
        if pod is not None:
            self._assumed[pod.metadata.uid] = node

    def _get_node(self, pod: Pod) -> str:
        return pod.spec.get("nodeName") or self._assumed.get(pod.metadata.uid, "")

    def _compute_free_capacity(self) -> FreeCapacity:
        free: dict[str, int] = {}
        labels: dict[str, dict[str, str]] = {}
        for node in self.nodes.store.objects():
            own_gangs = node.metadata.name.startswith(self.prefix)
            if own_gangs and not node.spec.get("unschedulable"):
                free[node.metadata.name] = _parse_bytes(node.status["allocatable"]["memory"])
                labels[node.metadata.name] = node.metadata.labels
        for pod in self.pods.store.objects():
            where = self._get_node(pod)
            if where in free and pod.status.get("phase") not in ("Succeeded", "Failed"):
                free[where] -= _get_memory_request(pod)
        return FreeCapacity(free, labels)

    def _build_gang(self, gang: Any) -> GangState:
        namespace = gang.metadata.namespace
        waiting: dict[str, WaitingPod] = {}
        bound: dict[str, str] = {}
        for group in gang.spec.pod_groups:
            for reference in group.pod_references:
                pod = self.pods.store.get((namespace, reference.name))
                if pod is None or pod.metadata.deletion_timestamp:
                    continue
                if pod.metadata.labels.get(names.POD_GANG) != gang.metadata.name:
                    continue
                if node := self._get_node(pod):
                    bound[reference.name] = node
                elif pod.spec.get("schedulerName") in SCHEDULERS and not pod.spec.get(
                    "schedulingGates"
                ):
                    waiting[reference.name] = WaitingPod(reference.name, _get_memory_request(pod))
        return GangState(
            gang, waiting, bound, self._list_anchor_nodes(gang), self._list_excluded_nodes(gang)
        )

    def _list_anchor_nodes(self, gang: Any) -> list[str]:
        base = gang.spec.base_ref
        return [] if base is None else self._list_nodes(base.namespace, {base.name})

    def _list_excluded_nodes(self, gang: Any) -> list[str]:
        spread = gang.spec.spread
        if spread is None:
            return []
        same_set = gang.metadata.labels.get(spread.among)
        others = {
            each.metadata.name
            for each in self.gangs.store.objects()
            if each.metadata.labels.get(spread.among) == same_set
            and each.metadata.namespace == gang.metadata.namespace
            and each.spec.base_ref is None
            and each.metadata.name != gang.metadata.name
        }
        return self._list_nodes(gang.metadata.namespace, others)

    def _list_nodes(self, namespace: str, gangs: set[str]) -> list[str]:
        """Where the pods of some gangs are."""
        return [
            node
            for each in self.pods.store.objects()
            if each.metadata.namespace == namespace
            and each.metadata.labels.get(names.POD_GANG) in gangs
            and (node := self._get_node(each))
        ]


def _map_to_single_key(_: object) -> list[Key]:
    return [_SINGLE_KEY]


def _get_memory_request(pod: Pod) -> int:
    containers = pod.spec.get("containers", [])
    requests = (each.get("resources", {}).get("requests", {}) for each in containers)
    return sum(_parse_bytes(each.get("memory", "0")) for each in requests)


def _parse_bytes(text: str) -> int:
    for group_replica, factor in _UNITS.items():
        if text.endswith(group_replica):
            return int(text.removesuffix(group_replica)) * factor
    return int(text)
