"""A minimal API server for client tests: objects by path, versions, merge patches.

Each client has its own `MemoryTransport` to it, which can be slow, broken or hanging.
"""

import asyncio
from contextlib import AbstractAsyncContextManager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kilonova.kube.client.errors import ConnectionFailed
from kilonova.kube.client.transport import Reply, Request, StreamReply


@dataclass
class MemoryApi:
    """Create, read and patch on any path; a patch with an old resourceVersion conflicts."""

    objects: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    writes: list[tuple[str, str, Any]] = field(default_factory=list[tuple[str, str, Any]])
    refuse: dict[str, tuple[int, str]] = field(default_factory=dict[str, tuple[int, str]])
    version: int = 0

    def handle(self, request: Request) -> Reply:
        if request.method in self.refuse:
            code, reason = self.refuse[request.method]
            return _status_reply(code, reason)
        if request.method == "GET":
            found = self.objects.get(request.path)
            return _status_reply(404, "NotFound") if found is None else _object_reply(found)
        body = msgspec.json.decode(request.body)
        if request.method == "POST":
            path = f"{request.path}/{body['metadata']['name']}"
            if path in self.objects:
                return _status_reply(409, "AlreadyExists")
            return self._store(request.method, path, body, body)
        assert request.method == "PATCH"
        found = self.objects.get(request.path)
        if found is None:
            return _status_reply(404, "NotFound")
        expected = body.get("metadata", {}).get("resourceVersion")
        if expected not in (None, found["metadata"]["resourceVersion"]):
            return _status_reply(409, "Conflict")
        return self._store(request.method, request.path, apply_merge_patch(found, body), body)

    def _store(self, method: str, path: str, obj: dict[str, Any], written: Any) -> Reply:
        self.version += 1
        obj = deepcopy(obj)
        obj["metadata"]["resourceVersion"] = str(self.version)
        self.objects[path] = obj
        self.writes.append((method, path, written))
        return _object_reply(obj)


@dataclass
class MemoryTransport:
    """The transport of one client."""

    api: MemoryApi
    cut: bool = False
    """The connection is refused at once."""
    to_server: float = 0.0
    """Seconds before the server sees a request."""
    from_server: float = 0.0
    """Seconds before the client sees the answer."""

    async def send(self, request: Request) -> Reply:
        if self.cut:
            raise ConnectionFailed("connection refused")
        if self.to_server:
            await asyncio.sleep(self.to_server)
        reply = self.api.handle(request)
        if self.from_server:
            await asyncio.sleep(self.from_server)
        return reply

    def stream(self, request: Request) -> AbstractAsyncContextManager[StreamReply]:
        raise NotImplementedError("nothing under test streams")

    async def close(self) -> None: ...


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = apply_merge_patch(result.get(name), value)
    return result


def _object_reply(obj: Any) -> Reply:
    return Reply(200, msgspec.json.encode(obj))


def _status_reply(code: int, reason: str) -> Reply:
    body = {
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": reason,
    }
    return Reply(code, msgspec.json.encode(body))
