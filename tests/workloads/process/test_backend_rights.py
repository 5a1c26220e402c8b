"""`deploy/operator` with its extras, on both servers: enough for KAI and Volcano."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kilonova.cli.install import install_definitions
from kilonova.kube import Client, plain
from tests.conftest import Api
from tests.harness.kubectl import Kubectl
from tests.local.embedded_cluster import eventually
from tests.workloads.backends.foreign_kinds import (
    KAI_GROUPS,
    KAI_TOPOLOGIES,
    VOLCANO_GROUPS,
    VOLCANO_QUEUES,
    install,
    uninstall,
)
from tests.workloads.ground import GANGS, SETS, TOPOLOGIES
from tests.workloads.process.operator_process import (
    forget_webhooks,
    operator_process,
    token_kubeconfig,
)
from tests.workloads.process.test_deployed_operator import MANIFESTS, account

EVENTS = plain("", "v1", "events", "Event", True)
KINDS = (KAI_GROUPS, KAI_TOPOLOGIES, VOLCANO_GROUPS, VOLCANO_QUEUES)
BINDING = "fleet-of-backends"
OPTIONS = ("--webhook-url", "https://127.0.0.1:0", "--scheduler", "kai-scheduler")


@pytest.fixture
def extended(api: Api, kubectl: Kubectl) -> Iterator[Api]:
    """A server with our kinds, the manifests and the extras, and no scheduler's kinds."""

    async def prepare() -> None:
        async with api.client() as client:
            await install_definitions(client)
            await uninstall(client, *KINDS)

    asyncio.run(prepare())
    files = ["-k", str(MANIFESTS)], ["-f", str(MANIFESTS / "extras.yaml")]
    for each in files:
        done = kubectl(["apply", *each])
        assert done.code == 0, done.err
    yield api
    forget_webhooks(api.access)
    for each in reversed(files):
        kubectl(["delete", *each, "--ignore-not-found"])


def set_for(scheduler: str) -> Any:
    """A set that is named as its scheduler, which is to place it."""
    container = {"name": "main", "image": "img"}
    pod_spec = {"schedulerName": scheduler, "containers": [container]}
    clique = {"name": "w", "spec": {"roleName": "w", "replicas": 2, "podSpec": pod_spec}}
    marks = {"labels": {"kai.scheduler/queue": "q"}} if scheduler == "kai-scheduler" else {}
    template = {"cliques": [clique]}
    return {
        "metadata": {"name": scheduler, **marks},
        "spec": {"replicas": 1, "template": template},
    }


async def test_kinds_of_schedulers_may_come_after_the_operator(
    extended: Api, tmp_path: Path
) -> None:
    namespace = extended.namespace
    kubeconfig = token_kubeconfig(extended.access, tmp_path / "account", account(extended).token())
    options = (*OPTIONS, "--scheduler", "volcano")
    with operator_process(kubeconfig, tmp_path, *options) as operator:
        async with extended.client() as client:
            # It is ready without them.
            await client.create(SETS, set_for("kai-scheduler"), namespace)
            levels = [{"domain": "rack", "key": "example.com/rack"}]
            bound = {"metadata": {"name": BINDING}, "spec": {"levels": levels}}
            await client.create(TOPOLOGIES, bound)
            try:
                await eventually(lambda: _told(client, namespace), within=30)
                await install(client, *KINDS)
                await _open_queue(client)
                await client.create(SETS, set_for("volcano"), namespace)
                await eventually(lambda: _complete(client, namespace), within=30)
                for name in ("kai-scheduler", "volcano"):
                    await client.delete(SETS, name, namespace)
                await eventually(lambda: _empty(client, namespace), within=30)
            finally:
                await client.delete(TOPOLOGIES, BINDING)
        log = operator.process.log.read_text()
        assert "forbidden" not in log.lower()


async def _told(client: Client, namespace: str) -> bool:
    found = (await client.list(EVENTS, namespace)).items
    return any(
        each["reason"] == "KAIBackendMappingFailed" and "is not installed" in each["message"]
        for each in found
    )


async def _open_queue(client: Client) -> None:
    await client.create(VOLCANO_QUEUES, {"metadata": {"name": "default"}, "spec": {}})
    state = {"status": {"state": "Open"}}
    await client.patch(VOLCANO_QUEUES, "default", state, subresource="status")


async def _complete(client: Client, namespace: str) -> bool:
    groups = [
        each["metadata"]["name"]
        for kind in (KAI_GROUPS, VOLCANO_GROUPS)
        for each in (await client.list(kind, namespace)).items
    ]
    topologies = [each["metadata"]["name"] for each in (await client.list(KAI_TOPOLOGIES)).items]
    return groups == ["kai-scheduler-0", "volcano-0"] and BINDING in topologies


async def _empty(client: Client, namespace: str) -> bool:
    kinds = (SETS, GANGS, KAI_GROUPS, VOLCANO_GROUPS)
    return not any([(await client.list(each, namespace)).items for each in kinds])
