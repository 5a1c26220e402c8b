"""The verbs of the API, typed.

A client is stateless but for its transport: share one between any number of tasks of one
event loop. There is deliberately no PUT: objects are decoded to the fields that we know, and
writing such an object back whole would drop the others. Change objects with `patch` or
`apply`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec

from kilonova import __version__
from kilonova.api.json import JsonObject
from kilonova.kube.codec import Undecodable, decode, decode_page, encode_object
from kilonova.kube.errors import ApiStatusError, Expired, TooManyRequests, error_of_reply
from kilonova.kube.resource import Resource, plain
from kilonova.kube.transport import Query, Reply, Request, Transport
from kilonova.kube.verbs import (
    JsonPatch,
    Listing,
    PatchKind,
    Propagation,
    Scale,
    delete_options,
    path_of,
    present,
    selectors,
)
from kilonova.kube.watch import WatchStream

T = TypeVar("T")

_TRIES = 6
_PATIENCE_SECONDS = 60.0
_LIST_TRIES = 3  # the last one unpaged


class Client:
    """Typed access to one API server over a transport.

    429, and 503 with Retry-After, are retried as the server asks, a bounded number of times.
    `field_manager` is who writes: the owner of the fields in server-side apply.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        field_manager: str = "kilonova",
        user_agent: str = f"kilonova/{__version__}",
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._transport = transport
        self._field_manager = field_manager
        self._user_agent = user_agent
        self._sleep = sleep
        self._jitter = jitter

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the transport."""
        await self._transport.close()

    async def get(self, resource: Resource[T], name: str, namespace: str | None = None) -> T:
        """Read one object; `NotFound` if there is none."""
        reply = await self.send(self._request("GET", path_of(resource, namespace, name)))
        return decode(reply.body, resource.type)

    async def list(
        self,
        resource: Resource[T],
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 500,
        resource_version: str = "",
        on_undecodable: Callable[[Undecodable], None] | None = None,
    ) -> Listing[T]:
        """Read all objects, page by page; no namespace means all of them.

        A continue token that expires on the way starts the list anew; when that goes on, the
        list is read in one piece. Objects that do not fit the type are left out and reported
        to `on_undecodable`; without it they are an error.
        """
        path = path_of(resource, namespace)
        for attempt in range(_LIST_TRIES):
            last = attempt + 1 == _LIST_TRIES
            items: list[T] = []
            token = ""
            try:
                while True:
                    query = selectors(labels, fields)
                    if limit and not last:
                        query.append(("limit", str(limit)))
                    if token:
                        query.append(("continue", token))
                    elif resource_version:
                        query.append(("resourceVersion", resource_version))
                    reply = await self.send(self._request("GET", path, query))
                    page = decode_page(reply.body, resource.type, on_undecodable)
                    items.extend(page.items or ())
                    token = page.metadata.continue_
                    if not token:
                        return Listing(items, page.metadata.resource_version)
            except Expired:
                if last:
                    raise
        raise AssertionError("the last try returns or raises")

    @asynccontextmanager
    async def watch(
        self,
        resource: Resource[T],
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
        initial_events: bool = False,
        timeout_seconds: int | None = None,
    ) -> AsyncGenerator[WatchStream[T]]:
        """Watch changes after a version; leaving the context ends the watch.

        With `initial_events` the objects come first, ended by a bookmark that says so. A
        server that refuses the watch raises on entering; later failures raise from the
        stream.
        """
        query = selectors(labels, fields)
        query += [("watch", "true"), ("allowWatchBookmarks", "true")]
        if initial_events:
            query += [("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan")]
        if resource_version:
            query.append(("resourceVersion", resource_version))
        if timeout_seconds:
            query.append(("timeoutSeconds", str(timeout_seconds)))
        request = self._request("GET", path_of(resource, namespace), query)
        async with self._stream(request) as chunks:
            yield WatchStream(chunks, resource.type)

    async def create(
        self,
        resource: Resource[T],
        obj: Any,
        namespace: str | None = None,
        *,
        dry_run: bool = False,
    ) -> T:
        """Create an object; apiVersion and kind may be left out of it."""
        query = self._write_query(dry_run)
        body = encode_object(resource, obj)
        request = self._request("POST", path_of(resource, namespace), query, body)
        return decode((await self.send(request)).body, resource.type)

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        patch: JsonObject | JsonPatch | msgspec.Struct,
        namespace: str | None = None,
        *,
        kind: PatchKind = PatchKind.MERGE,
        subresource: str = "",
        dry_run: bool = False,
    ) -> T:
        """Change the fields that the patch names, and no others."""
        query = self._write_query(dry_run)
        path = path_of(resource, namespace, name, subresource)
        request = self._request("PATCH", path, query, msgspec.json.encode(patch), kind.value)
        return decode((await self.send(request)).body, resource.type)

    async def apply(
        self,
        resource: Resource[T],
        name: str,
        obj: Any,
        namespace: str | None = None,
        *,
        force: bool = True,
        subresource: str = "",
        dry_run: bool = False,
        manager: str | None = None,
    ) -> T:
        """Server-side apply: own exactly the fields in `obj`, create the object if absent.

        Fields owned before and now left out are removed, unless others own them too. Without
        `force`, a field that another manager set to another value is a `Conflict`.
        """
        query = [*self._write_query(dry_run, manager), ("force", "true" if force else "false")]
        path = path_of(resource, namespace, name, subresource)
        body = encode_object(resource, obj, name)
        request = self._request("PATCH", path, query, body, "application/apply-patch+yaml")
        return decode((await self.send(request)).body, resource.type)

    async def delete(
        self,
        resource: Resource[Any],
        name: str,
        namespace: str | None = None,
        *,
        grace: int | None = None,
        propagation: Propagation | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        dry_run: bool = False,
    ) -> None:
        """Ask for an object's deletion; it may stay for its finalizers or its grace period.

        With `uid` or `resource_version` only that very object is deleted, else `Conflict`.
        """
        body = delete_options(grace, propagation, uid, resource_version, dry_run)
        path = path_of(resource, namespace, name)
        await self.send(self._request("DELETE", path, body=msgspec.json.encode(body)))

    async def delete_collection(
        self,
        resource: Resource[Any],
        namespace: str | None,
        *,
        labels: str = "",
        fields: str = "",
        grace: int | None = None,
        propagation: Propagation | None = None,
        dry_run: bool = False,
    ) -> None:
        """Delete all objects of a namespace that match (None: of a cluster-wide resource)."""
        if resource.namespaced and not namespace:
            raise ValueError(f"deleting {resource.plural} in all namespaces at once is not served")
        body = delete_options(grace, propagation, None, None, dry_run)
        path = path_of(resource, namespace)
        query = selectors(labels, fields)
        await self.send(self._request("DELETE", path, query, msgspec.json.encode(body)))

    async def get_scale(
        self, resource: Resource[Any], name: str, namespace: str | None = None
    ) -> Scale:
        """Read the scale of an object that has one."""
        reply = await self.send(self._request("GET", path_of(resource, namespace, name, "scale")))
        return decode(reply.body, Scale)

    async def set_scale(
        self, resource: Resource[Any], name: str, namespace: str | None, replicas: int
    ) -> Scale:
        """Ask for a number of replicas."""
        path = path_of(resource, namespace, name, "scale")
        body = msgspec.json.encode({"spec": {"replicas": replicas}})
        request = self._request(
            "PATCH", path, self._write_query(False), body, PatchKind.MERGE.value
        )
        return decode((await self.send(request)).body, Scale)

    async def bind(
        self,
        pod: str,
        namespace: str,
        node: str,
        *,
        uid: str | None = None,
        annotations: dict[str, str] | None = None,
    ) -> None:
        """Place a pod on a node; `Conflict` if it is placed already or is another pod now."""
        metadata = present(name=pod, namespace=namespace, uid=uid, annotations=annotations)
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        path = path_of(_PODS, namespace, pod, "binding")
        query = self._write_query(False)
        await self.send(self._request("POST", path, query, msgspec.json.encode(body)))

    async def evict(
        self, pod: str, namespace: str, *, grace: int | None = None, uid: str | None = None
    ) -> None:
        """Delete a pod if its disruption budgets allow it now, else `TooManyRequests`."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
            "deleteOptions": delete_options(grace, None, uid, None, False),
        }
        path = path_of(_PODS, namespace, pod, "eviction")
        await self.send(self._request("POST", path, body=msgspec.json.encode(body)))

    async def logs(
        self,
        pod: str,
        namespace: str,
        *,
        container: str = "",
        follow: bool = False,
        tail: int | None = None,
        previous: bool = False,
        since_seconds: int | None = None,
        timestamps: bool = False,
    ) -> AsyncIterator[bytes]:
        """The output of a container as it comes, in chunks of any size."""
        query = [("container", container)] if container else []
        query += [
            (name, "true")
            for name, wanted in (
                ("follow", follow),
                ("previous", previous),
                ("timestamps", timestamps),
            )
            if wanted
        ]
        if tail is not None:
            query.append(("tailLines", str(tail)))
        if since_seconds is not None:
            query.append(("sinceSeconds", str(since_seconds)))
        request = self._request("GET", path_of(_PODS, namespace, pod, "log"), query)
        request.headers["accept"] = "*/*"
        async with self._stream(request) as chunks:
            async for chunk in chunks:
                yield chunk

    async def send(self, request: Request) -> Reply:
        """Send any request; raise `ApiStatusError` unless it succeeds.

        The door for what the typed verbs do not cover (discovery, health).
        """
        for attempt in range(_TRIES):
            reply = await self._transport.send(request)
            if reply.status < 400:
                return reply
            error = error_of_reply(reply)
            pause = self._pause_asked(error, attempt)
            if pause is None:
                raise error
            await self._sleep(pause)
        raise AssertionError("the last try returns or raises")

    def _pause_asked(self, error: ApiStatusError, attempt: int) -> float | None:
        """How long to wait before the next try, or None to give up."""
        if attempt + 1 == _TRIES:
            return None
        if isinstance(error, TooManyRequests):
            if error.disruption_budget:
                return None
        elif error.code != 503 or error.retry_after is None:
            return None
        # A little more than asked, so that clients turned away together do not return together.
        asked = 1.0 if error.retry_after is None else error.retry_after
        pause = asked + self._jitter() * max(asked, 1.0) / 4
        return pause if pause <= _PATIENCE_SECONDS else None

    @asynccontextmanager
    async def _stream(self, request: Request) -> AsyncGenerator[AsyncIterator[bytes]]:
        async with self._transport.stream(request) as reply:
            if reply.status >= 400:
                body = b"".join([chunk async for chunk in reply.chunks])
                raise error_of_reply(Reply(reply.status, body, reply.headers))
            yield reply.chunks

    def _request(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        body: bytes = b"",
        content_type: str = "application/json",
    ) -> Request:
        headers = {"accept": "application/json", "user-agent": self._user_agent}
        if body:
            headers["content-type"] = content_type
        return Request(method, path, query or [], headers, body)

    def _write_query(self, dry_run: bool, manager: str | None = None) -> Query:
        query = [("fieldManager", manager or self._field_manager)]
        if dry_run:
            query.append(("dryRun", "All"))
        return query


_PODS = plain("", "v1", "pods", "Pod", True)
