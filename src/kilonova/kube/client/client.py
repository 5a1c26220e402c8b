"""The typed verbs of the API.

A client has no state but its transport: share one between any number of tasks of one event loop.
There is deliberately no PUT: objects are decoded only to the fields that we use, and writing such
an object back whole would drop the others. Change objects with `patch` or `apply`.
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
from kilonova.kube.client.codec import Undecodable, decode, decode_page, encode_object
from kilonova.kube.client.errors import Expired, error_from_reply
from kilonova.kube.client.options import (
    JsonPatch,
    Listing,
    PatchType,
    PropagationPolicy,
    Scale,
    delete_options,
    drop_none,
    object_path,
    selector_query,
)
from kilonova.kube.client.resource import Resource, unstructured_resource
from kilonova.kube.client.retries import MAX_ATTEMPTS, retry_delay
from kilonova.kube.client.transport import Query, Reply, Request, Transport
from kilonova.kube.client.watch import WatchStream

T = TypeVar("T")

_MAX_LIST_ATTEMPTS = 3  # the last attempt is unpaged


class Client:
    """Typed access to one API server over a transport.

    429, and 503 with Retry-After, are retried after the delay that the server asks for, a bounded
    number of times. `field_manager` owns the fields that are written by server-side apply.
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

    def wrap_transport(self, wrap: Callable[[Transport], Transport]) -> Client:
        """A client as this one, over a transport around its own."""
        return Client(
            wrap(self._transport),
            field_manager=self._field_manager,
            user_agent=self._user_agent,
            sleep=self._sleep,
            jitter=self._jitter,
        )

    async def get(self, resource: Resource[T], name: str, namespace: str | None = None) -> T:
        """Read one object; raises `NotFound` if it does not exist."""
        reply = await self.send(self._build_request("GET", object_path(resource, namespace, name)))
        return decode(reply.body, resource.type)

    async def list(
        self,
        resource: Resource[T],
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        resource_version: str = "",
        on_undecodable: Callable[[Undecodable], None] | None = None,
    ) -> Listing[T]:
        """Read all objects, page by page; without a namespace, of all namespaces.

        If a continue token expires, the list starts again; if that happens repeatedly, the list is
        read unpaged. Objects that cannot be decoded are left out and reported to `on_undecodable`;
        without it they are an error.
        """
        path = object_path(resource, namespace)
        for attempt in range(_MAX_LIST_ATTEMPTS):
            last = attempt + 1 == _MAX_LIST_ATTEMPTS
            items: list[T] = []
            token = ""
            try:
                while True:
                    query = selector_query(label_selector, field_selector)
                    if limit and not last:
                        query.append(("limit", str(limit)))
                    if token:
                        query.append(("continue", token))
                    elif resource_version:
                        query.append(("resourceVersion", resource_version))
                    reply = await self.send(self._build_request("GET", path, query))
                    page = decode_page(reply.body, resource.type, on_undecodable)
                    items.extend(page.items or ())
                    token = page.metadata.continue_
                    if not token:
                        return Listing(items, page.metadata.resource_version)
            except Expired:
                if last:
                    raise
        raise AssertionError("the last attempt returns or raises")

    @asynccontextmanager
    async def watch(
        self,
        resource: Resource[T],
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        initial_events: bool = False,
        timeout_seconds: int | None = None,
    ) -> AsyncGenerator[WatchStream[T]]:
        """Watch changes after a version; leaving the context ends the watch.

        With `initial_events` the existing objects are sent first, followed by a bookmark that marks
        their end. A rejected watch raises on entering; later failures raise from the stream.
        """
        query = selector_query(label_selector, field_selector)
        query += [("watch", "true"), ("allowWatchBookmarks", "true")]
        if initial_events:
            query += [("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan")]
        if resource_version:
            query.append(("resourceVersion", resource_version))
        if timeout_seconds:
            query.append(("timeoutSeconds", str(timeout_seconds)))
        request = self._build_request("GET", object_path(resource, namespace), query)
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
        """Create an object; apiVersion and kind may be omitted."""
        query = self._write_query(dry_run)
        body = encode_object(resource, obj)
        request = self._build_request("POST", object_path(resource, namespace), query, body)
        return decode((await self.send(request)).body, resource.type)

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        patch: JsonObject | JsonPatch | msgspec.Struct,
        namespace: str | None = None,
        *,
        patch_type: PatchType = PatchType.MERGE,
        subresource: str = "",
        dry_run: bool = False,
    ) -> T:
        """Change the fields that the patch names, and no others."""
        query = self._write_query(dry_run)
        path = object_path(resource, namespace, name, subresource)
        request = self._build_request(
            "PATCH", path, query, msgspec.json.encode(patch), patch_type.value
        )
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
        field_manager: str | None = None,
    ) -> T:
        """Server-side apply: own exactly the fields in `obj`, create the object if absent.

        Fields owned before and now left out are removed, unless others own them too. Without
        `force`, a field that another manager set to another value is a `Conflict`.
        """
        query = [
            *self._write_query(dry_run, field_manager),
            ("force", "true" if force else "false"),
        ]
        path = object_path(resource, namespace, name, subresource)
        body = encode_object(resource, obj, name)
        request = self._build_request("PATCH", path, query, body, "application/apply-patch+yaml")
        return decode((await self.send(request)).body, resource.type)

    async def delete(
        self,
        resource: Resource[Any],
        name: str,
        namespace: str | None = None,
        *,
        grace_period_seconds: int | None = None,
        propagation_policy: PropagationPolicy | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        dry_run: bool = False,
    ) -> None:
        """Request the deletion of an object; finalizers or its grace period may delay its removal.

        With `uid` or `resource_version` only that very object is deleted; otherwise `Conflict`.
        """
        body = delete_options(
            grace_period_seconds, propagation_policy, uid, resource_version, dry_run
        )
        path = object_path(resource, namespace, name)
        await self.send(self._build_request("DELETE", path, body=msgspec.json.encode(body)))

    async def delete_collection(
        self,
        resource: Resource[Any],
        namespace: str | None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        grace_period_seconds: int | None = None,
        propagation_policy: PropagationPolicy | None = None,
        dry_run: bool = False,
    ) -> None:
        """Delete all objects of a namespace that match (None: of a cluster-scoped resource)."""
        if resource.namespaced and not namespace:
            raise ValueError(f"deleting {resource.plural} in all namespaces at once is not served")
        body = delete_options(grace_period_seconds, propagation_policy, None, None, dry_run)
        path = object_path(resource, namespace)
        query = selector_query(label_selector, field_selector)
        await self.send(self._build_request("DELETE", path, query, msgspec.json.encode(body)))

    async def get_scale(
        self, resource: Resource[Any], name: str, namespace: str | None = None
    ) -> Scale:
        """Read the scale subresource."""
        reply = await self.send(
            self._build_request("GET", object_path(resource, namespace, name, "scale"))
        )
        return decode(reply.body, Scale)

    async def set_scale(
        self, resource: Resource[Any], name: str, namespace: str | None, replicas: int
    ) -> Scale:
        """Set the number of replicas through the scale subresource."""
        path = object_path(resource, namespace, name, "scale")
        body = msgspec.json.encode({"spec": {"replicas": replicas}})
        request = self._build_request(
            "PATCH", path, self._write_query(False), body, PatchType.MERGE.value
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
        """Bind a pod to a node; `Conflict` if it is bound already or has been replaced by another
        pod."""
        metadata = drop_none(name=pod, namespace=namespace, uid=uid, annotations=annotations)
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        path = object_path(_PODS, namespace, pod, "binding")
        query = self._write_query(False)
        await self.send(self._build_request("POST", path, query, msgspec.json.encode(body)))

    async def evict(
        self,
        pod: str,
        namespace: str,
        *,
        grace_period_seconds: int | None = None,
        uid: str | None = None,
    ) -> None:
        """Evict a pod if its disruption budgets allow it now; otherwise `TooManyRequests`."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
            "deleteOptions": delete_options(grace_period_seconds, None, uid, None, False),
        }
        path = object_path(_PODS, namespace, pod, "eviction")
        await self.send(self._build_request("POST", path, body=msgspec.json.encode(body)))

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
        """Stream the output of a container, in chunks of any size."""
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
        request = self._build_request("GET", object_path(_PODS, namespace, pod, "log"), query)
        request.headers["accept"] = "*/*"
        async with self._stream(request) as chunks:
            async for chunk in chunks:
                yield chunk

    async def send(self, request: Request) -> Reply:
        """Send any request; raise `ApiStatusError` unless it succeeds.

        For requests that the typed verbs do not cover (discovery, health).
        """
        for attempt in range(MAX_ATTEMPTS):
            reply = await self._transport.send(request)
            if reply.status < 400:
                return reply
            error = error_from_reply(reply)
            delay = retry_delay(error, attempt, self._jitter)
            if delay is None:
                raise error
            await self._sleep(delay)
        raise AssertionError("the last attempt returns or raises")

    @asynccontextmanager
    async def _stream(self, request: Request) -> AsyncGenerator[AsyncIterator[bytes]]:
        async with self._transport.stream(request) as reply:
            if reply.status >= 400:
                body = b"".join([chunk async for chunk in reply.chunks])
                raise error_from_reply(Reply(reply.status, body, reply.headers))
            yield reply.chunks

    def _build_request(
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

    def _write_query(self, dry_run: bool, field_manager: str | None = None) -> Query:
        query = [("fieldManager", field_manager or self._field_manager)]
        if dry_run:
            query.append(("dryRun", "All"))
        return query


_PODS = unstructured_resource("", "v1", "pods", "Pod", True)
