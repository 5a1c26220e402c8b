"""A deployment on both API servers, in real time: an update, commands, a rollback."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime

from typer.testing import CliRunner

from kilonova.cli.install import install_definitions
from kilonova.instances.caches import build_caches
from kilonova.instances.commands.deployments.app import app
from kilonova.instances.context import ControllerContext
from kilonova.instances.controllers.deployment.controller import build_deployment_controller
from kilonova.kube import Client, NotFound
from kilonova.kube.events import EventRecorder
from tests.conftest import Api
from tests.instances.deployment.deployment_cluster import (
    DEPLOYMENTS,
    INSTANCES,
    DeploymentCluster,
    SimulatedEngines,
)
from tests.workloads.workload_cluster import run_runnables


@asynccontextmanager
async def deployment_servers(api: Api) -> AsyncGenerator[DeploymentCluster]:
    """The controller on a server, and simulated engines."""
    async with api.client() as client:
        await install_definitions(client)
        caches = build_caches(client)
        recorder = EventRecorder(client, "kilonova-instances")
        controllers = build_deployment_controller(ControllerContext(client, caches, recorder))
        engines = SimulatedEngines(client, lambda: datetime.now(UTC), start_seconds=0.1)
        running = asyncio.create_task(engines.run())
        try:
            async with run_runnables([*caches.runnables, recorder], controllers):
                yield DeploymentCluster(client, api.namespace, engines)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await _delete_all(client, api.namespace)


async def _delete_all(client: Client, namespace: str) -> None:
    """The server is shared: controllers of other tests would start what is left."""
    for resource in (DEPLOYMENTS, INSTANCES):
        for each in (await client.list(resource, namespace)).items:
            name = each["metadata"]["name"]
            with suppress(NotFound):
                await client.patch(resource, name, {"metadata": {"finalizers": None}}, namespace)
                await client.delete(resource, name, namespace, propagation_policy="Background")


async def run_command(api: Api, *words: str) -> str:
    where = ("-n", api.namespace, "--kubeconfig", str(api.access.kubeconfig))
    result = await asyncio.to_thread(CliRunner().invoke, app, [*words, *where])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


async def test_update_is_seen_and_rolled_back_by_commands(api: Api) -> None:
    async with deployment_servers(api) as cluster:
        await cluster.create()
        await cluster.wait_for_reason("Progressing", "NewRevisionAvailable", within=40)
        await cluster.release("r2")
        await cluster.wait_for_reason("Progressing", "NewRevisionAvailable", within=40)
        assert await cluster.list_releases() == ["r2"] * 3

        history = json.loads(await run_command(api, "history", "llama", "-o", "json"))
        assert [(each["revision"], each["release"], each["instances"]) for each in history] == [
            (2, "r2", 3),
            (1, "r1", 0),
        ]
        assert [each["current"] for each in history] == [True, False]
        dry = await run_command(api, "rollback", "llama", "--dry-run")
        assert dry == f"{api.namespace}/llama rolled back to revision 1 (release r1) (dry run)\n"
        assert (await cluster.client.get(DEPLOYMENTS, "llama", api.namespace))["spec"][
            "release"
        ] == "r2"
        done = await run_command(api, "rollback", "llama", "--to-release", "r1")
        assert done == f"{api.namespace}/llama rolled back to revision 1 (release r1)\n"
        await cluster.wait_for(lambda status: status["currentRevision"] == 3, within=40)
        await cluster.wait_for_reason("Progressing", "NewRevisionAvailable", within=40)
        assert await cluster.list_releases() == ["r1"] * 3

        rows = json.loads(await run_command(api, "status", "llama", "-o", "json"))
        assert [(each["state"], each["ready"], each["revision"]) for each in rows] == [
            ("Complete", 3, 3)
        ]
        table = (await run_command(api, "status")).splitlines()
        assert table[0].split()[:4] == ["NAMESPACE", "NAME", "RELEASE", "REVISION"]
        assert table[1].split()[1:8] == ["llama", "r1", "3", "3", "3", "3", "0"]
        listed = json.loads(await run_command(api, "list", "llama", "-o", "json"))
        # Kubernetes' garbage collector may take a while for instances that are deleted.
        present = [each for each in listed if each["phase"] != "Terminating"]
        assert [(each["phase"], each["readyAgents"]) for each in present] == [("Ready", 4)] * 3
