"""The example controller of the documentation works, on both servers."""

import asyncio
import importlib.util
from pathlib import Path

from kilonova.kube import Manager, NotFound
from kilonova.kube.client.resource import unstructured_resource
from tests.conftest import Api

_FILE = Path(__file__).parents[2] / "examples" / "controller.py"
NAMESPACES = unstructured_resource("", "v1", "namespaces", "Namespace", False)
CONFIG_MAPS = unstructured_resource("", "v1", "configmaps", "ConfigMap", True)


def load_example():
    spec = importlib.util.spec_from_file_location("example_controller", _FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def test_example_maintains_a_config_map_in_labelled_namespaces(api: Api) -> None:
    example = load_example()
    async with api.client() as client:
        team_config = example.TeamConfig(client)
        manager = Manager()
        manager.add(team_config.namespaces, team_config.config_maps, team_config.controller)
        running = asyncio.create_task(manager.run(signals=False))
        try:
            label = {"metadata": {"labels": {"team": "blue"}}}
            await client.patch(NAMESPACES, api.namespace, label)
            assert await read_result(client, api.namespace) == "blue"
            await client.delete(CONFIG_MAPS, "team", api.namespace)
            assert await read_result(client, api.namespace) == "blue", "it is created again"
            label = {"metadata": {"labels": {"team": "red"}}}
            await client.patch(NAMESPACES, api.namespace, label)
            async with asyncio.timeout(20):
                while await read_result(client, api.namespace) != "red":
                    await asyncio.sleep(0.02)
        finally:
            manager.stop()
            await running


async def read_result(client, namespace: str) -> str:
    async with asyncio.timeout(20):
        while True:
            try:
                return (await client.get(CONFIG_MAPS, "team", namespace))["data"]["team"]
            except NotFound:
                await asyncio.sleep(0.02)
