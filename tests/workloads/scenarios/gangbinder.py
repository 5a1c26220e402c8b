"""A scheduler for tests that honours PodGangs, on any API server."""

from typing import Any

import msgspec

from kilonova.api.grove import names
from kilonova.api.meta import Metadata
from kilonova.kube import ApiStatusError, Client, Controller, Key, Part, Reflector, Resource, Watch
from kilonova.workloads.resources import GANGS
from tests.workloads.scenarios.gangplaces import Candidate, Gang, Room, places

SCHEDULERS = ("kai-scheduler", "kilonova-scheduler")
_UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_ALL: Key = ("", "all")


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
    """Binds pods of gangs that name one of `SCHEDULERS`; says of the others that they cannot be."""

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
            Watch(self.pods, _everything),
            Watch(self.nodes, _everything),
            Watch(self.gangs, _everything),
        ]
        self.controller = Controller("gang-binder", self.reconcile, watches)

    @property
    def parts(self) -> list[Part]:
        return [self.pods, self.nodes, self.gangs, self.controller]

    def may_use(self, name: str) -> bool:
        """Whether it knows a node that lets pods on."""
        node = self.nodes.store.get(("", name))
        return node is not None and not node.spec.get("unschedulable")

    async def reconcile(self, _: Key) -> None:
        room = self._room()
        gangs = sorted(
            self.gangs.store.objects(),
            key=lambda gang: (gang.spec.base_ref is not None, gang.metadata.name),
        )
        for gang in gangs:
            await self._place(gang.metadata.namespace, self._seen(gang), room)

    async def _place(self, namespace: str, gang: Gang, room: Room) -> None:
        found = places(gang, room)
        for name, node in found.items():
            try:
                await self.client.bind(name, namespace, node)
                self._assume(namespace, name, node)
            except ApiStatusError as error:
                if error.code not in (404, 409):
                    raise
        for name in gang.waiting.keys() - found.keys():
            await self._say_unschedulable(namespace, name)

    async def _say_unschedulable(self, namespace: str, name: str) -> None:
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

    def _assume(self, namespace: str, name: str, node: str) -> None:
        pod = self.pods.store.get((namespace, name))
        if pod is not None:
            self._assumed[pod.metadata.uid] = node

    def _node(self, pod: Pod) -> str:
        return pod.spec.get("nodeName") or self._assumed.get(pod.metadata.uid, "")

    def _room(self) -> Room:
        free: dict[str, int] = {}
        labels: dict[str, dict[str, str]] = {}
        for node in self.nodes.store.objects():
            mine = node.metadata.name.startswith(self.prefix)
            if mine and not node.spec.get("unschedulable"):
                free[node.metadata.name] = _bytes(node.status["allocatable"]["memory"])
                labels[node.metadata.name] = node.metadata.labels
        for pod in self.pods.store.objects():
            where = self._node(pod)
            if where in free and pod.status.get("phase") not in ("Succeeded", "Failed"):
                free[where] -= _memory(pod)
        return Room(free, labels)

    def _seen(self, gang: Any) -> Gang:
        namespace = gang.metadata.namespace
        waiting: dict[str, Candidate] = {}
        bound: dict[str, str] = {}
        for group in gang.spec.pod_groups:
            for reference in group.pod_references:
                pod = self.pods.store.get((namespace, reference.name))
                if pod is None or pod.metadata.deletion_timestamp:
                    continue
                if pod.metadata.labels.get(names.POD_GANG) != gang.metadata.name:
                    continue
                if node := self._node(pod):
                    bound[reference.name] = node
                elif pod.spec.get("schedulerName") in SCHEDULERS and not pod.spec.get(
                    "schedulingGates"
                ):
                    waiting[reference.name] = Candidate(reference.name, _memory(pod))
        return Gang(gang, waiting, bound, self._anchor(gang), self._apart(gang))

    def _anchor(self, gang: Any) -> list[str]:
        base = gang.spec.base_ref
        return [] if base is None else self._nodes_of(base.namespace, {base.name})

    def _apart(self, gang: Any) -> list[str]:
        spread = gang.spec.spread
        if spread is None:
            return []
        alike = gang.metadata.labels.get(spread.among)
        others = {
            each.metadata.name
            for each in self.gangs.store.objects()
            if each.metadata.labels.get(spread.among) == alike
            and each.metadata.namespace == gang.metadata.namespace
            and each.spec.base_ref is None
            and each.metadata.name != gang.metadata.name
        }
        return self._nodes_of(gang.metadata.namespace, others)

    def _nodes_of(self, namespace: str, gangs: set[str]) -> list[str]:
        """Where the pods of some gangs are."""
        return [
            node
            for each in self.pods.store.objects()
            if each.metadata.namespace == namespace
            and each.metadata.labels.get(names.POD_GANG) in gangs
            and (node := self._node(each))
        ]


def _everything(_: object) -> list[Key]:
    return [_ALL]


def _memory(pod: Pod) -> int:
    containers = pod.spec.get("containers", [])
    requests = (each.get("resources", {}).get("requests", {}) for each in containers)
    return sum(_bytes(each.get("memory", "0")) for each in requests)


def _bytes(text: str) -> int:
    for unit, factor in _UNITS.items():
        if text.endswith(unit):
            return int(text.removesuffix(unit)) * factor
    return int(text)
