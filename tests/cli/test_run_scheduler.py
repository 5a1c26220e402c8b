"""`kilonova run scheduler`: what it needs, told before it begins."""

import asyncio
from pathlib import Path

from kilonova.cli.install import install_definitions
from kilonova.kube import NotFound
from tests.cli.command import Kilonova
from tests.conftest import Api
from tests.local.embedded_cluster import DEFINITIONS, gone


async def _install(api: Api) -> None:
    async with api.client() as client:
        await install_definitions(client)


async def _forget_queues(api: Api) -> None:
    async with api.client() as client:
        name = "queues.scheduling.kilonova.dev"
        try:
            await client.delete(DEFINITIONS, name)
        except NotFound:
            return
        await gone(client, DEFINITIONS, name, None)


def test_what_is_missing_is_said(kilonova: Kilonova, api: Api, tmp_path: Path) -> None:
    words = ("run", "scheduler", "--kubeconfig", api.access.kubeconfig, "--health-port", "0")
    asyncio.run(_install(api))
    done = kilonova(*words, "--namespace", "nowhere")
    assert done.code == 1
    assert "there is no namespace nowhere for the Lease: create it, or name another" in done.err
    asyncio.run(_forget_queues(api))
    done = kilonova(*words, "--namespace", api.namespace)
    assert done.code == 1
    missing = "queues.scheduling.kilonova.dev"
    assert f"not installed on this cluster: {missing}; run `kilonova install`" in done.err


def test_a_file_with_a_mistake_is_refused_in_one_line(kilonova: Kilonova, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    head = "apiVersion: scheduler.config.kilonova.dev/v1alpha1\nkind: SchedulerConfiguration\n"
    config.write_text(head + "weights: {luck: 7}\n")
    done = kilonova("run", "scheduler", "--config", config)
    assert done.code == 1
    assert "config.yaml: weights.luck: is no part of the score: name one of" in done.err
    assert done.err.count("\n") == 1
