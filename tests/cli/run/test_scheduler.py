"""`kilonova run scheduler`: errors before the start."""

import asyncio
from pathlib import Path

from kilonova.cli.install import install_definitions
from kilonova.kube import NotFound
from tests.cli.command import Kilonova
from tests.conftest import Api
from tests.local.embedded_cluster import DEFINITIONS, wait_deleted


async def _install(api: Api) -> None:
    async with api.client() as client:
        await install_definitions(client)


async def _delete_queue_definition(api: Api) -> None:
    async with api.client() as client:
        name = "queues.scheduling.kilonova.dev"
        try:
            await client.delete(DEFINITIONS, name)
        except NotFound:
            return
        await wait_deleted(client, DEFINITIONS, name, None)


def test_missing_prerequisites_are_reported(kilonova: Kilonova, api: Api, tmp_path: Path) -> None:
    words = ("run", "scheduler", "--kubeconfig", api.access.kubeconfig, "--health-port", "0")
    asyncio.run(_install(api))
    done = kilonova(*words, "--namespace", "nowhere")
    assert done.code == 1
    assert "namespace nowhere for the Lease does not exist: create it, or use another" in done.err
    asyncio.run(_delete_queue_definition(api))
    done = kilonova(*words, "--namespace", api.namespace)
    assert done.code == 1
    missing = "queues.scheduling.kilonova.dev"
    assert f"not installed on this cluster: {missing}; run `kilonova install`" in done.err


def test_invalid_file_is_rejected_in_one_line(kilonova: Kilonova, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    head = "apiVersion: scheduler.config.kilonova.dev/v1alpha1\nkind: SchedulerConfiguration\n"
    config.write_text(head + "weights: {luck: 7}\n")
    done = kilonova("run", "scheduler", "--config", config)
    assert done.code == 1
    assert "config.yaml: weights.luck: unknown score plugin: use one of" in done.err
    assert done.err.count("\n") == 1
