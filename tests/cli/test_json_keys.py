"""JSON keys of all commands are in camel case."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command
from typer.testing import CliRunner

from kilonova.artifacts.builds import Build, save_build
from kilonova.cli.commands.app import app
from kilonova.cli.install import install_definitions
from kilonova.component import find_components
from kilonova.component.definitions import load_component_definitions
from kilonova.kube import Client, connect, unstructured_resource
from tests.cli.command import Kilonova
from tests.harness.queue_status import wait_for_queue_status
from tests.local.embedded_cluster import PODS
from tests.scheduler.harness.embedded_scheduler import GANGS, QUEUES, gang, pod

INSTANCE_DEPLOYMENTS = unstructured_resource(
    "inference-engine.groq.io",
    "v1",
    "inferenceenginedeployments",
    "InferenceEngineDeployment",
    True,
)
GLOBAL_DEPLOYMENTS = unstructured_resource(
    "inference-engine.groq.io", "v1", "deployments", "Deployment", True
)
SERVICES = unstructured_resource(
    "serving.kilonova.dev", "v1alpha1", "inferenceservices", "InferenceService", True
)
CLUSTERS = unstructured_resource("fleet.kilonova.dev", "v1alpha1", "clusters", "Cluster", False)
SECRETS = unstructured_resource("", "v1", "secrets", "Secret", True)
CUSTOM_RESOURCE = "example.com/odd_part"
"""An extended resource with an underscore in its name."""

ON = ("--data", "cluster")
COMMANDS: dict[str, tuple[list[tuple[str, ...]], str]] = {
    "status": ([ON], "resourceVersion processNode"),
    "nodes": ([ON], "gpusAllocated"),
    "workloads": ([ON], ""),
    "gangs": ([ON], ""),
    "queues": ([ON, ("few", *ON)], "fairShare pendingGangs"),
    "why": (
        [(name, *ON) for name in ("running", "held", "wide", "partial")],
        "notReady expectedStart runnerUp failedPlugins",
    ),
    "plan": ([("-f", "new.yaml", *ON), ("--moves", *ON)], "targetGang lostGpuSeconds"),
    "doctor": ([ON], ""),
    "snapshot show": (
        [("it.json",)],
        "notReady partlyUsed freeMilli fragmentedMilli fairShare",
    ),
    "snapshot replay": ([("it.json",)], ""),
    "gpu list": ([ON], "memoryMib migEnabled"),
    "gpu slices": ([ON], ""),
    "gpu discover": ([("--backend", "simulated:h100:2")], ""),
    "gpu topology": ([("--backend", "simulated:h100:2")], ""),
    "gpu health": ([("--backend", "simulated:h100:2")], ""),
    "gpu advise": ([("--memory", "2Gi")], ""),
    "gpu mig rebalance": ([ON], ""),
    "fit": ([ON, ("--build", "llama", "--builds", "builds", *ON)], "otherNodes isNext"),
    "alloc": ([("--build", "llama", "--builds", "builds", *ON)], ""),
    "builds list": ([("--builds", "builds")], ""),
    "builds show": ([("llama", "--builds", "builds")], ""),
    "tokenizers list": ([("--store", "tokenizers")], ""),
    "instances list": ([ON], "targetAgents readyAgents"),
    "instances status": ([ON], ""),
    "instances history": ([("chat", *ON)], ""),
    "fleet clusters": ([ON], "lastSeen"),
    "fleet status": ([ON], ""),
    "fleet endpoint show": ([("store",)], ""),
    "serve list": ([ON], ""),
    "serve show": ([("chat", *ON)], ""),
    "serve why": ([("chat", *ON)], ""),
    "serve key list": ([("chat", *ON)], ""),
    "serve bench": (
        [("--url", "http://127.0.0.1:1/x", "--protocol", "http", "--requests", "1")],
        "tokensPerSecond",
    ),
    "models list": ([("models",)], ""),
    "install": ([()], "openAPIV3Schema"),
    "catalog gpus": ([()], "sharesPcieSwitch directBoard"),
    "catalog machines": ([()], ""),
    "catalog prices": ([()], "onDemand"),
    "catalog slices": ([("H100",)], "onDemand"),
}
"""By command: calls that together print all its keys, and keys of two words that must occur."""


@pytest.fixture(scope="module", autouse=True)
def busy_cluster(cluster_command: Kilonova, cluster: Path) -> None:
    """A running pod, a pod that waits for its queue, an unschedulable gang and an incomplete one;
    with a snapshot of the cluster, a manifest and a build."""
    asyncio.run(_fill(cluster / "kubeconfig"))
    (cluster_command.home / "new.yaml").write_text(yaml.safe_dump(pod("new", 1)))
    (cluster_command.home / "tokenizers").mkdir()
    (cluster_command.home / "models" / "double" / "1").mkdir(parents=True)
    (cluster_command.home / "models" / "double" / "1" / "model.onnx").write_bytes(b"")
    save_build(Build(id="llama", model="llama", agents=2), cluster_command.home / "builds")
    saved = cluster_command("snapshot", "save", "it.json", "--data", cluster)
    assert saved.code == 0, saved.err


async def _fill(kubeconfig: Path) -> None:
    async with connect(kubeconfig) as client:
        limit = {"nvidia.com/gpu": 2, CUSTOM_RESOURCE: 1}
        await client.create(QUEUES, {"metadata": {"name": "few"}, "spec": {"limit": limit}})
        held = pod("held", 4)
        held["metadata"]["labels"]["scheduling.kilonova.dev/queue"] = "few"
        wide = (pod(name, 9, gang="wide") for name in ("w0", "w1"))
        for each in (pod("running", 1), held, *wide, pod("p0", 1, gang="partial")):
            await client.create(PODS, each, "default")
        await client.create(GANGS, gang("wide", {"w": ["w0", "w1"]}), "default")
        await client.create(GANGS, gang("partial", {"p": ["p0", "p1"]}), "default")
        async with asyncio.timeout(30):
            while (await client.get(PODS, "running", "default"))["status"]["phase"] != "Running":
                await asyncio.sleep(0.05)
        await wait_for_queue_status(client, "few")
        await _create_engines(client)


async def _has_history(client: Client) -> bool:
    found = await client.get(INSTANCE_DEPLOYMENTS, "chat", "default")
    return bool(found.get("status", {}).get("history"))


async def _create_engines(client: Client) -> None:
    """An instance, and what a hub has."""
    template = {"model": "llama", "image": "kilonova/engine", "targetAgents": 1}
    body = {"metadata": {"name": "chat"}, "spec": {"replicas": 1, "template": template}}
    await client.create(INSTANCE_DEPLOYMENTS, body, "default")
    async with asyncio.timeout(30):
        while not await _has_history(client):
            await asyncio.sleep(0.05)
    await _create_service(client)
    fleet = [each for each in find_components() if each.name == "fleet"]
    await install_definitions(client, load_component_definitions(fleet))
    await client.create(CLUSTERS, {"metadata": {"name": "dal1"}, "spec": {}})
    body = {"metadata": {"name": "all"}, "spec": {"release": "r1", "replicas": 1}}
    await client.create(GLOBAL_DEPLOYMENTS, body, "default")


async def _create_service(client: Client) -> None:
    """An inference service with API keys."""
    keys = {"client": f"sha256:{'0' * 64}"}
    await client.create(SECRETS, {"metadata": {"name": "keys"}, "stringData": keys}, "default")
    spec = {
        "servers": [{"name": "llm", "runtime": "ModelServer", "replicas": 0}],
        "auth": {"apiKeys": {"secret": "keys"}},
    }
    await client.create(SERVICES, {"metadata": {"name": "chat"}, "spec": spec}, "default")
    async with asyncio.timeout(30):
        while not (await client.get(SERVICES, "chat", "default")).get("status"):
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("command", COMMANDS)
def test_keys_are_in_camel_case(cluster_command: Kilonova, command: str):
    calls, expected = COMMANDS[command]
    keys: set[str] = set()
    for words in calls:
        done = cluster_command(*command.split(), *words, "-o", "json")
        assert done.out, done.err
        keys |= set(_keys(json.loads(done.out)))
    ours = {key for key in keys if "/" not in key}
    assert [key for key in ours if "_" in key or key[0].isupper()] == []
    assert set(expected.split()) <= ours


def test_resource_names_are_not_converted(cluster_command: Kilonova):
    queue = json.loads(cluster_command("queues", "few", *ON, "-o", "json").out)
    assert queue["limit"] == {"nvidia.com/gpu": "2", CUSTOM_RESOURCE: "1"}


def test_every_command_with_json_output_is_covered():
    offers = re.compile(r"--output <[^>]*\bjson\b")
    run = CliRunner().invoke
    found = {
        command
        for command in _commands(get_command(app))
        if offers.search(run(app, [*command.split(), "--help"]).output)
    }
    assert found == set(COMMANDS)


def _keys(value: object) -> Iterator[str]:
    """All keys of objects, at any depth."""
    match value:
        case dict():
            yield from value
            for each in value.values():
                yield from _keys(each)
        case list():
            for each in value:
                yield from _keys(each)
        case _:
            return


def _commands(group: Any, path: str = "") -> Iterator[str]:
    """Every command, without groups."""
    for name, each in group.commands.items():
        if hasattr(each, "commands"):
            yield from _commands(each, f"{path}{name} ")
        else:
            yield f"{path}{name}"
