"""A cluster in memory that an extender answers about, asked as kube-scheduler asks."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from kilonova.api.gpus import DEVICES
from kilonova.api.podgang import PodGang
from kilonova.api.scheduling import Queue
from kilonova.kube import Client, Reply, Request, Store
from kilonova.kube.election import FencedTransport
from kilonova.kube.errors import ConnectionFailed
from kilonova.scheduler.core.rooms import Rooms
from kilonova.scheduler.core.scores import WISHES, default_scoring
from kilonova.scheduler.extender.binding import Binding
from kilonova.scheduler.extender.server import Verbs
from kilonova.scheduler.objects import Node, Pod
from kilonova.scheduler.world import World

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
    """A pod of the default scheduler, as the API server shows it: eight cores for a GPU."""
    requests = {
        "cpu": str(8 * gpus if cores is None else cores),
        **({resource: str(gpus)} if gpus else {}),
    }
    given = {DEVICES: devices} if devices else {}
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {**(annotations or {}), **given},
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
    """A node of 64 cores."""
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
class Server:
    """An API server that only binds: takes bindings, or fails as it is told to."""

    bindings: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    failures: list[Any] = field(default_factory=list[Any])
    """What becomes of the next requests: None takes one, `lost` takes it and breaks the
    connection, `away` breaks it before, a number refuses."""
    held: Any = None
    """An event that the next answers wait for."""

    async def send(self, request: Request) -> Reply:
        if self.held is not None:
            await self.held.wait()
        if request.method == "GET":
            return self._pod(request.path.rpartition("/")[2])
        outcome = self.failures.pop(0) if self.failures else None
        if outcome == "away":
            raise ConnectionFailed("away")
        if isinstance(outcome, int):
            return _status(outcome)
        body = msgspec.json.decode(request.body)
        if any(each["metadata"]["name"] == body["metadata"]["name"] for each in self.bindings):
            return _status(409)
        self.bindings.append(body)
        if outcome == "lost":
            raise ConnectionFailed("cut off")
        return Reply(201, b'{"kind":"Status","status":"Success"}')

    def stream(self, request: Request) -> Any:
        raise NotImplementedError

    async def close(self) -> None: ...

    def devices(self) -> dict[str, str]:
        """What each pod was given, with its node: `gpu-0:0,1`."""
        return {
            each["metadata"]["name"]: f"{each['target']['name']}:"
            + each["metadata"].get("annotations", {}).get(DEVICES, "")
            for each in self.bindings
        }

    def _pod(self, name: str) -> Reply:
        for each in self.bindings:
            if each["metadata"]["name"] == name:
                given = each["metadata"].get("annotations", {}).get(DEVICES, "")
                shown = pod(name, node=each["target"]["name"], devices=given)
                return Reply(200, msgspec.json.encode(shown))
        return _status(404)


def _status(code: int) -> Reply:
    reason = {404: "NotFound", 409: "Conflict", 403: "Forbidden"}.get(code, "InternalError")
    status = {"kind": "Status", "status": "Failure", "reason": reason, "code": code}
    return Reply(code, msgspec.json.encode({**status, "message": reason}))


class Scene:
    """Caches, filled by hand, and the verbs over them."""

    def __init__(self, *nodes: dict[str, Any], fenced: bool = False) -> None:
        self.nodes, self.pods = Store(Node), Store(Pod)
        self.gangs, queues = Store(PodGang), Store(Queue)
        self.synced = True
        self.server = Server()
        now = datetime(2026, 1, 1, tzinfo=UTC)
        self.world = World(self.nodes, self.pods, self.gangs, queues, lambda: now, lambda: None)
        scoring = default_scoring().weighed({WISHES: 0})
        rooms = Rooms(self.world.cluster.snapshot, scoring)
        transport = FencedTransport(self.server, lambda: None) if fenced else self.server
        client = Client(transport, field_manager="tester")
        self.binding = Binding(client, self.world, rooms, self.pods)
        self.verbs = Verbs(self.world, rooms, scoring, self.binding, lambda: self.synced)
        self.endpoints = self.verbs.endpoints()
        for each in nodes:
            self.nodes.put(msgspec.convert(each, Node))

    def show(self, *pods: dict[str, Any]) -> None:
        """The cache shows pods."""
        for each in pods:
            self.pods.put(msgspec.convert(each, Pod))

    def show_gang(self, *gangs: dict[str, Any]) -> None:
        for each in gangs:
            self.gangs.put(msgspec.convert(each, PodGang))

    async def ask(self, verb: str, body: Any) -> Any:
        """The answer to a message that is taken."""
        reply = await self.send("POST", f"/{verb}", msgspec.json.encode(body))
        assert reply.status == 200, reply.body
        return msgspec.json.decode(reply.body)

    async def send(self, method: str, path: str, body: bytes = b"", **query: str) -> Reply:
        endpoint = self.endpoints.get(path) or self.endpoints["/"]
        reply = await endpoint(Request(method, path, list(query.items()), body=body))
        assert isinstance(reply, Reply)
        return reply

    async def filter(self, asking: dict[str, Any], *names: str) -> Any:
        return await self.ask("filter", {"Pod": asking, "Nodes": None, "NodeNames": names})

    async def bind(self, name: str, node: str, uid: str = "") -> str:
        """What went wrong with a binding."""
        asked = {"PodName": name, "PodNamespace": "default", "PodUID": uid or f"uid-{name}"}
        return (await self.ask("bind", {**asked, "Node": node}))["Error"]
