"""An extender over an in-memory cluster, called as kube-scheduler does."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from kilonova.api.gpu.annotations import DEVICES
from kilonova.api.podgang import PodGang
from kilonova.api.scheduling import Queue
from kilonova.kube import Client, Reply, Request, Store
from kilonova.kube.client.errors import ConnectionFailed
from kilonova.kube.election import FencedTransport
from kilonova.scheduler.cache.scheduler_cache import SchedulerCache
from kilonova.scheduler.cache.sources import ClusterStores
from kilonova.scheduler.core.filters.feasibility import FeasibilityCache
from kilonova.scheduler.core.scoring.plugins import PREFERENCES, default_scoring
from kilonova.scheduler.extender.handlers import ExtenderHandlers
from kilonova.scheduler.extender.pod_binder import PodBinder
from kilonova.scheduler.objects.core_v1 import Node, Pod

GPU = "nvidia.com/gpu"


def pod(
    name: str,
    gpus: int = 1,
    *,
    node: str = "",
    devices: str = "",
    annotations: dict[str, str] | None = None,
    resource: str = GPU,
    cores: int | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A pod of the default scheduler as JSON: eight CPUs and a GPU."""
    requests = {
        "cpu": str(8 * gpus if cores is None else cores),
        **({resource: str(gpus)} if gpus else {}),
    }
    assigned = {DEVICES: devices} if devices else {}
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {**(annotations or {}), **assigned},
        },
        "spec": {
            "containers": [{"name": "main", "resources": {"requests": requests}}],
            **({"nodeName": node} if node else {}),
            **spec,
        },
    }


def node(
    name: str,
    gpus: int = 8,
    *,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    allocatable: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A node of 64 CPUs."""
    has = {"cpu": "64", "memory": "256Gi", "pods": "110", GPU: str(gpus), **(allocatable or {})}
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "labels": labels or {},
            "annotations": annotations or {},
        },
        "spec": spec,
        "status": {"allocatable": has},
    }


def gang(name: str, minimum: int, *pods: str) -> dict[str, Any]:
    """A PodGang of one group."""
    references = [{"namespace": "default", "name": each} for each in pods]
    group = {"name": "workers", "minReplicas": minimum, "podReferences": references}
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"podgroups": [group]},
    }


@dataclass
class FakeApiServer:
    """An API server that only binds: accepts bindings, or fails as configured."""

    bindings: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    failures: list[Any] = field(default_factory=list[Any])
    """The outcomes of the next requests: None accepts, `lost` accepts and breaks the connection,
    `away` breaks it before, a number is the status code of an error."""
    held: Any = None
    """An event that the next replies wait for."""

    async def send(self, request: Request) -> Reply:
        if self.held is not None:
            await self.held.wait()
        if request.method == "GET":
            return self._pod(request.path.rpartition("/")[2])
        outcome = self.failures.pop(0) if self.failures else None
        if outcome == "away":
            raise ConnectionFailed("away")
        if isinstance(outcome, int):
            return _status_reply(outcome)
        body = msgspec.json.decode(request.body)
        if any(each["metadata"]["name"] == body["metadata"]["name"] for each in self.bindings):
            return _status_reply(409)
        self.bindings.append(body)
        if outcome == "lost":
            raise ConnectionFailed("cut off")
        return Reply(201, b'{"kind":"Status","status":"Success"}')

    def stream(self, request: Request) -> Any:
        raise NotImplementedError

    async def close(self) -> None: ...

    def devices(self) -> dict[str, str]:
        """The node and devices of each bound pod: `gpu-0:0,1`."""
        return {
            each["metadata"]["name"]: f"{each['target']['name']}:"
            + each["metadata"].get("annotations", {}).get(DEVICES, "")
            for each in self.bindings
        }

    def _pod(self, name: str) -> Reply:
        for each in self.bindings:
            if each["metadata"]["name"] == name:
                assigned = each["metadata"].get("annotations", {}).get(DEVICES, "")
                shown = pod(name, node=each["target"]["name"], devices=assigned)
                return Reply(200, msgspec.json.encode(shown))
        return _status_reply(404)


def _status_reply(code: int) -> Reply:
    reason = {404: "NotFound", 409: "Conflict", 403: "Forbidden"}.get(code, "InternalError")
    status = {"kind": "Status", "status": "Failure", "reason": reason, "code": code}
    return Reply(code, msgspec.json.encode({**status, "message": reason}))


class ExtenderScenario:
    """Stores filled by the test, and the handlers over them."""

    def __init__(self, *nodes: dict[str, Any], fenced: bool = False) -> None:
        self.nodes, self.pods = Store(Node), Store(Pod)
        self.gangs, queues = Store(PodGang), Store(Queue)
        self.synced = True
        self.server = FakeApiServer()
        now = datetime(2026, 1, 1, tzinfo=UTC)
        stores = ClusterStores(self.nodes, self.pods, self.gangs, queues)
        self.cache = SchedulerCache(stores, lambda: now, lambda: None)
        scoring = default_scoring().with_weights({PREFERENCES: 0})
        feasibility = FeasibilityCache(self.cache.cluster.snapshot, scoring)
        transport = FencedTransport(self.server, lambda: None) if fenced else self.server
        client = Client(transport, field_manager="tester")
        self.binding = PodBinder(client, self.cache, feasibility, self.pods)
        self.verbs = ExtenderHandlers(
            self.cache, feasibility, scoring, self.binding, lambda: self.synced
        )
        self.endpoints = self.verbs.routes()
        for each in nodes:
            self.nodes.put(msgspec.convert(each, Node))

    def add_pods(self, *pods: dict[str, Any]) -> None:
        """Add pods to the pod store."""
        for each in pods:
            self.pods.put(msgspec.convert(each, Pod))

    def add_gangs(self, *gangs: dict[str, Any]) -> None:
        for each in gangs:
            self.gangs.put(msgspec.convert(each, PodGang))

    async def call_verb(self, verb: str, body: Any) -> Any:
        """The result of a valid message."""
        reply = await self.send("POST", f"/{verb}", msgspec.json.encode(body))
        assert reply.status == 200, reply.body
        return msgspec.json.decode(reply.body)

    async def send(self, method: str, path: str, body: bytes = b"", **query: str) -> Reply:
        endpoint = self.endpoints.get(path) or self.endpoints["/"]
        reply = await endpoint(Request(method, path, list(query.items()), body=body))
        assert isinstance(reply, Reply)
        return reply

    async def filter(self, requesting_pod: dict[str, Any], *names: str) -> Any:
        return await self.call_verb(
            "filter", {"Pod": requesting_pod, "Nodes": None, "NodeNames": names}
        )

    async def bind(self, name: str, node: str, uid: str = "") -> str:
        """The error of a binding."""
        args = {"PodName": name, "PodNamespace": "default", "PodUID": uid or f"uid-{name}"}
        return (await self.call_verb("bind", {**args, "Node": node}))["Error"]
