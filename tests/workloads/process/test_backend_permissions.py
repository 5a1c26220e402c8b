"""`deploy/operator` with its extras, on both servers: sufficient for KAI and Volcano."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kilonova.cli.install import install_definitions
from kilonova.kube import Client, unstructured_resource
from tests.conftest import Api
from tests.harness.kubectl import Kubectl
from tests.local.embedded_cluster import wait_for_condition
from tests.workloads.backends.foreign_kinds import (
    KAI_POD_GROUPS,
    KAI_TOPOLOGIES,
    VOLCANO_POD_GROUPS,
    VOLCANO_QUEUES,
    install_foreign_kinds,
    uninstall_foreign_kinds,
)
from tests.workloads.process.operator_process import (
    delete_webhook_configurations,
    operator_process,
    write_token_kubeconfig,
)
from tests.workloads.process.test_deployed_operator import MANIFESTS, build_account
from tests.workloads.workload_cluster import GANGS, SETS, TOPOLOGY_BINDINGS

EVENTS = unstructured_resource("", "v1", "events", "Event", True)
KINDS = (KAI_POD_GROUPS, KAI_TOPOLOGIES, VOLCANO_POD_GROUPS, VOLCANO_QUEUES)
BINDING = "fleet-of-backends"
OPTIONS = ("--webhook-url", "https://127.0.0.1:0", "--scheduler", "kai-scheduler")


@pytest.fixture
def extended(api: Api, kubectl: Kubectl) -> Iterator[Api]:
    """A server with our kinds, the manifests and the extras, and no scheduler's kinds."""

    async def prepare() -> None:
        async with api.client() as client:
            await install_definitions(client)
            await uninstall_foreign_kinds(client, *KINDS)

    asyncio.run(prepare())
    files = ["-k", str(MANIFESTS)], ["-f", str(MANIFESTS / "extras.yaml")]
    for each in files:
        done = kubectl(["apply", *each])
        assert done.code == 0, done.err
    yield api
    delete_webhook_configurations(api.access)
    for each in reversed(files):
        kubectl(["delete", *each, "--ignore-not-found"])


def build_set(scheduler: str) -> Any:
    """A set that is named as its scheduler, which is to place it."""
    container = {"name": "main", "image": "img"}
    pod_spec = {"schedulerName": scheduler, "containers": [container]}
    clique = {"name": "w", "spec": {"roleName": "w", "replicas": 2, "podSpec": pod_spec}}
    metadata = {"labels": {"kai.scheduler/queue": "q"}} if scheduler == "kai-scheduler" else {}
    template = {"cliques": [clique]}
    return {
        "metadata": {"name": scheduler, **metadata},
        "spec": {"replicas": 1, "template": template},
    }


async def test_scheduler_crds_may_be_installed_after_the_operator(
    extended: Api, tmp_path: Path
) -> None:
    namespace = extended.namespace
    kubeconfig = write_token_kubeconfig(
        extended.access, tmp_path / "account", build_account(extended).request_token()
    )
    options = (*OPTIONS, "--scheduler", "volcano")
    with operator_process(kubeconfig, tmp_path, *options) as operator:
        async with extended.client() as client:
            # It is ready without them.
            await client.create(SETS, build_set("kai-scheduler"), namespace)
            levels = [{"domain": "rack", "key": "example.com/rack"}]
            bound = {"metadata": {"name": BINDING}, "spec": {"levels": levels}}
            await client.create(TOPOLOGY_BINDINGS, bound)
            try:
                await wait_for_condition(lambda: _list_event_messages(client, namespace), within=30)
                await install_foreign_kinds(client, *KINDS)
                await _create_open_queue(client)
                await client.create(SETS, build_set("volcano"), namespace)
                await wait_for_condition(lambda: _is_complete(client, namespace), within=30)
                for name in ("kai-scheduler", "volcano"):
                    await client.delete(SETS, name, namespace)
                await wait_for_condition(lambda: _is_empty(client, namespace), within=30)
            finally:
                await client.delete(TOPOLOGY_BINDINGS, BINDING)
        log = operator.process.log.read_text()
        assert "forbidden" not in log.lower()


async def _list_event_messages(client: Client, namespace: str) -> bool:
    found = (await client.list(EVENTS, namespace)).items
    return any(
        each["reason"] == "KAIBackendMappingFailed" and "is not installed" in each["message"]
        for each in found
    )


async def _create_open_queue(client: Client) -> None:
    await client.create(VOLCANO_QUEUES, {"metadata": {"name": "default"}, "spec": {}})
    state = {"status": {"state": "Open"}}
    await client.patch(VOLCANO_QUEUES, "default", state, subresource="status")


async def _is_complete(client: Client, namespace: str) -> bool:
    groups = [
        each["metadata"]["name"]
        for kind in (KAI_POD_GROUPS, VOLCANO_POD_GROUPS)
        for each in (await client.list(kind, namespace)).items
    ]
    topologies = [each["metadata"]["name"] for each in (await client.list(KAI_TOPOLOGIES)).items]
    return groups == ["kai-scheduler-0", "volcano-0"] and BINDING in topologies


async def _is_empty(client: Client, namespace: str) -> bool:
    kinds = (SETS, GANGS, KAI_POD_GROUPS, VOLCANO_POD_GROUPS)
    return not any([(await client.list(each, namespace)).items for each in kinds])
