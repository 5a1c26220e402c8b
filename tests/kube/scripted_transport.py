"""A scripted transport, which answers each request with the next item of a script."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kilonova.kube import Client, Reply, Request, Resource, StreamReply


class Meta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    resource_version: str = ""


class Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class Pod(msgspec.Struct):
    """A projection with the fields of a pod that these tests use."""

    metadata: Meta
    spec: Spec = msgspec.field(default_factory=Spec)


PODS = Resource("", "v1", "pods", "Pod", True, Pod)


class HangForever:
    """The peer sends nothing any more."""


@dataclass
class Pause:
    """The peer sends nothing for a while."""

    seconds: float


class Stream:
    """The chunks of a stream; exceptions are raised, and after the last step the stream ends."""

    def __init__(
        self, *steps: "bytes | Pause | HangForever | Exception", status: int = 200
    ) -> None:
        self.steps = steps
        self.status = status


@dataclass
class ScriptedTransport:
    """A transport. At the end of the script, requests hang."""

    script: list[Reply | Stream | Exception]
    requests: list[Request] = field(default_factory=list[Request])
    times: list[float] = field(default_factory=list[float])
    open_streams: int = 0
    closed: bool = False

    async def send(self, request: Request) -> Reply:
        response = await self._next_reply(request)
        assert isinstance(response, Reply), f"{request} was not expected to be a plain request"
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncGenerator[StreamReply]:
        response = await self._next_reply(request)
        if isinstance(response, Reply):
            response = Stream(response.body, status=response.status)
        self.open_streams += 1
        try:
            yield StreamReply(response.status, _stream_chunks(response))
        finally:
            self.open_streams -= 1

    async def close(self) -> None:
        self.closed = True

    async def _next_reply(self, request: Request) -> Reply | Stream:
        self.requests.append(request)
        self.times.append(asyncio.get_running_loop().time())
        if not self.script:
            await asyncio.Event().wait()
        response = self.script.pop(0)
        if isinstance(response, Exception):
            raise response
        return response


async def _stream_chunks(stream: Stream) -> AsyncGenerator[bytes]:
    for step in stream.steps:
        if isinstance(step, bytes):
            yield step
        elif isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
        elif isinstance(step, HangForever):
            await asyncio.Event().wait()
        else:
            raise step


def client_over(wire: ScriptedTransport) -> Client:
    return Client(wire, jitter=lambda: 0.0)


def pod(name: str, version: int, node: str = "") -> dict[str, Any]:
    """A pod with more fields than the projection."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "resourceVersion": str(version)},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "x"}]},
    }


def reply(body: Any, status: int = 200, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status, json.dumps(body).encode(), named)


def status_body(code: int, reason: str, message: str = "no", **more: Any) -> dict[str, Any]:
    return {"kind": "Status", "code": code, "reason": reason, "message": message, **more}


def error_reply(code: int, reason: str, message: str = "no", **headers: str) -> Reply:
    return reply(status_body(code, reason, message), code, **headers)


def page(*pods: dict[str, Any], version: int, token: str = "") -> Reply:
    metadata = {"resourceVersion": str(version), **({"continue": token} if token else {})}
    return reply({"kind": "PodList", "metadata": metadata, "items": list(pods)})


def event(kind: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def added(name: str, version: int, node: str = "") -> bytes:
    return event("ADDED", pod(name, version, node))


def modified(name: str, version: int, node: str = "") -> bytes:
    return event("MODIFIED", pod(name, version, node))


def deleted(name: str, version: int, node: str = "") -> bytes:
    return event("DELETED", pod(name, version, node))


def bookmark(version: int, *, ends_initial_events: bool = False) -> bytes:
    metadata: dict[str, Any] = {"resourceVersion": str(version), "creationTimestamp": None}
    if ends_initial_events:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return event("BOOKMARK", {"kind": "Pod", "apiVersion": "v1", "metadata": metadata})


def error_event(code: int, reason: str) -> bytes:
    return event("ERROR", status_body(code, reason))
