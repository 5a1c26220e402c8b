"""An embedded cluster inside a test: no socket, no file, and the event loop's clock."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from kilonova.cli.up.components.assembly import assemble_cluster
from kilonova.kube import Client, NotFound
from kilonova.kube.client.resource import Resource, unstructured_resource
from kilonova.local.cluster import ClusterSettings, EmbeddedCluster
from kilonova.local.simnodes import NO_NODES, Fleet

START_TIME = datetime(2026, 5, 1, tzinfo=UTC)

NAMESPACES = unstructured_resource("", "v1", "namespaces", "Namespace", False)
NODES = unstructured_resource("", "v1", "nodes", "Node", False)
PODS = unstructured_resource("", "v1", "pods", "Pod", True)
CONFIG_MAPS = unstructured_resource("", "v1", "configmaps", "ConfigMap", True)
SECRETS = unstructured_resource("", "v1", "secrets", "Secret", True)
SERVICES = unstructured_resource("", "v1", "services", "Service", True)
ACCOUNTS = unstructured_resource("", "v1", "serviceaccounts", "ServiceAccount", True)
LEASES = unstructured_resource("coordination.k8s.io", "v1", "leases", "Lease", True)
EVENTS = unstructured_resource("", "v1", "events", "Event", True)
DEFINITIONS = unstructured_resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)

virtual_time = pytest.mark.looptime(noop_cycles=1)
"""Where nothing comes from outside of the loop: no thread, socket or process is waited for."""


class LoopClock:
    """The wall clock of the event loop, so that virtual time advances both."""

    def now(self) -> datetime:
        return START_TIME + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


@asynccontextmanager
async def run_cluster(
    *,
    fleet: Fleet = NO_NODES,
    data: Path | None = None,
    controllers: str = "*",
    scheduler: bool | None = None,
) -> AsyncGenerator[EmbeddedCluster]:
    """A cluster from start to stop; with nodes, it also has a scheduler."""
    settings = ClusterSettings(port=None, data=data, fleet=fleet, controllers=controllers)
    expected = bool(fleet.nodes) if scheduler is None else scheduler
    names = ("scheduler",) if expected else ()
    cluster = assemble_cluster(names, settings, LoopClock()).cluster
    await cluster.start()
    try:
        await cluster.wait_nodes_registered()
        yield cluster
    finally:
        await cluster.stop()


async def wait_for_condition(
    check: Callable[[], Awaitable[bool]], *, within: float = 60.0, every: float = 0.05
) -> None:
    """Wait until a condition holds; what takes long is checked less often, as a check takes CPU
    time, also in virtual time."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    while not await check():
        waited = loop.time() - started
        assert waited < within, f"not so after {within:g} s"
        await asyncio.sleep(max(every, waited / 10))


async def find(
    client: Client, resource: Resource[Any], name: str, namespace: str | None = "default"
) -> Any:
    """The object, or None."""
    try:
        return await client.get(resource, name, namespace if resource.namespaced else None)
    except NotFound:
        return None


async def wait_deleted(
    client: Client, resource: Resource[Any], name: str, namespace: str | None = "default"
) -> None:
    """Wait until an object does not exist any more."""

    async def absent() -> bool:
        return await find(client, resource, name, namespace) is None

    await wait_for_condition(absent)


async def advance_time(seconds: float = 5.0) -> None:
    """Give the controllers time to do something wrong."""
    await asyncio.sleep(seconds)


def pod(name: str, **spec: Any) -> Any:
    metadata: Any = {"name": name, **spec.pop("metadata", {})}
    requests = spec.pop("requests", {})
    container = {"name": "main", "image": "img", "resources": {"requests": requests}}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


def definition(
    group: str, kind: str, plural: str, *, scope: str = "Namespaced", **names: Any
) -> Any:
    """A CustomResourceDefinition that accepts any fields."""
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
