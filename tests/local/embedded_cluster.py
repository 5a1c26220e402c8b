"""An embedded cluster inside a test: no socket, no file, and the event loop's own time."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kilonova.cli.residents import Residents
from kilonova.kube import Client, NotFound
from kilonova.kube.resource import Resource, plain
from kilonova.local.cluster import Cluster, Settings
from kilonova.local.nodes import NO_NODES, Fleet

BEGIN = datetime(2026, 5, 1, tzinfo=UTC)

NAMESPACES = plain("", "v1", "namespaces", "Namespace", False)
NODES = plain("", "v1", "nodes", "Node", False)
PODS = plain("", "v1", "pods", "Pod", True)
CONFIG_MAPS = plain("", "v1", "configmaps", "ConfigMap", True)
SECRETS = plain("", "v1", "secrets", "Secret", True)
SERVICES = plain("", "v1", "services", "Service", True)
ACCOUNTS = plain("", "v1", "serviceaccounts", "ServiceAccount", True)
LEASES = plain("coordination.k8s.io", "v1", "leases", "Lease", True)
EVENTS = plain("", "v1", "events", "Event", True)
DEFINITIONS = plain(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)

virtual_time = pytest.mark.looptime(noop_cycles=1)
"""Where nothing comes from outside of the loop: no thread, socket or process is waited for."""


class LoopClock:
    """The time of day as the event loop has it, so that virtual time moves both."""

    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


@asynccontextmanager
async def running(
    *,
    fleet: Fleet = NO_NODES,
    data: Path | None = None,
    controllers: str = "*",
    scheduler: bool | None = None,
) -> AsyncGenerator[Cluster]:
    """A cluster from start to stop; where it has nodes, a scheduler comes with them."""
    settings = Settings(port=None, data=data, fleet=fleet, controllers=controllers)
    wanted = bool(fleet.nodes) if scheduler is None else scheduler
    cluster = Residents(operator=False, scheduler=wanted).cluster(settings, LoopClock())
    await cluster.start()
    try:
        await cluster.wait_settled()
        yield cluster
    finally:
        await cluster.stop()


async def eventually(
    check: Callable[[], Awaitable[bool]], *, within: float = 60.0, every: float = 0.05
) -> None:
    """Wait until something holds; for tests in virtual time it costs none."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within
    while not await check():
        assert loop.time() < deadline, f"not so after {within:g} s"
        await asyncio.sleep(every)


async def find(
    client: Client, resource: Resource[Any], name: str, namespace: str | None = "default"
) -> Any:
    """The object, or None."""
    try:
        return await client.get(resource, name, namespace if resource.namespaced else None)
    except NotFound:
        return None


async def gone(
    client: Client, resource: Resource[Any], name: str, namespace: str | None = "default"
) -> None:
    """Wait until an object is not there any more."""

    async def absent() -> bool:
        return await find(client, resource, name, namespace) is None

    await eventually(absent)


async def settle(seconds: float = 5.0) -> None:
    """Give the controllers time to do what they should not do."""
    await asyncio.sleep(seconds)


def pod(name: str, **spec: Any) -> Any:
    metadata: Any = {"name": name, **spec.pop("metadata", {})}
    requests = spec.pop("requests", {})
    container = {"name": "main", "image": "img", "resources": {"requests": requests}}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


def definition(
    group: str, kind: str, plural: str, *, scope: str = "Namespaced", **names: Any
) -> Any:
    """A CustomResourceDefinition that takes any fields."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "plural": plural, **names},
            "versions": [version],
        },
    }
