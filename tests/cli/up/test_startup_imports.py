"""What a start avoids in order to be fast; asserted without a clock."""

import asyncio
import subprocess
from pathlib import Path

from kilonova.api.json import JsonObject
from kilonova.cli.install import DEFINITIONS
from kilonova.cli.up.options import UpOptions
from kilonova.kube import connect
from tests.cli.command import Kilonova
from tests.harness.embedded_server import no_components
from tests.harness.queue_status import wait_for_queue_status

LAZY_MODULES = {
    "aiohttp": "webhooks, and probes of pages",
    "boto3": "object stores on S3",
    "cel_expr_python.cel": "rules, patterns and policies",
    "dns.message": "queries to the cluster's DNS",
    "google.protobuf": "messages of gRPC services",
    "grpc": "gRPC servers and clients",
    "jwt": "tokens",
    "kilonova.cli.why.console_explainer": "reasons in the console",
    "kilonova.gpu.mig.engine": "MIG instances of simulated nodes",
    "rich.console": "a terminal",
    "typer": "a command line",
    "wsproto": "exec, attach and port-forward",
    "zoneinfo": "schedules in a time zone",
}
"""Modules that are imported on demand, and what for."""


def test_background_cluster_imports_no_optional_modules(kilonova: Kilonova, tmp_path: Path):
    data = tmp_path / "data"
    loaded = list_loaded_modules(kilonova, data)
    assert {"kilonova.workloads.operator", "kilonova.console.server"} <= loaded
    # The scheduler creates the default queue once, and rules validate it.
    assert loaded & set(LAZY_MODULES) <= {"cel_expr_python.cel"}
    asyncio.run(_wait_for_default_queue(data))
    assert kilonova("down", "--data", data).code == 0
    (data / "log").unlink()
    assert list_loaded_modules(kilonova, data) & set(LAZY_MODULES) == set()


async def _wait_for_default_queue(data: Path) -> None:
    async with connect(data / "kubeconfig") as client:
        await wait_for_queue_status(client, "default")


def test_disabled_components_are_not_imported(kilonova: Kilonova, tmp_path: Path):
    data = tmp_path / "data"
    loaded = list_loaded_modules(kilonova, data, *no_components())
    components = (
        "kilonova.console",
        "kilonova.fleet",
        "kilonova.gpu",
        "kilonova.instances",
        "kilonova.scheduler",
        "kilonova.workloads",
    )
    assert [name for name in loaded if name.startswith(components)] == []


async def test_a_second_start_writes_no_definition(kilonova: Kilonova, tmp_path: Path):
    data = tmp_path / "data"
    first = await _list_definitions(kilonova, data)
    assert kilonova("down", "--data", data).code == 0
    assert await _list_definitions(kilonova, data) == first


def test_options_survive_the_json_round_trip():
    options = UpOptions(
        data=Path("/data"),
        host="::1",
        port=0,
        durability="normal",
        demo=False,
        components=("nodes", "process-node"),
        flags={
            "nodes": "/fleet.yaml",
            "allow-host-path": ("/a b", "/ü"),
            "console-port": 0,
            "allow-actions": True,
        },
    )
    received = UpOptions.from_json(options.to_json())
    assert received == options
    assert received.fleet == "/fleet.yaml"
    assert received.host_paths == (Path("/a b"), Path("/ü"))


def list_loaded_modules(kilonova: Kilonova, data: Path, *options: str) -> set[str]:
    """The modules that a start with these options imports."""
    kilonova.stop_after_test(data)
    command = ("up", "--detach", "--wait", "--no-demo", "--port", "0", "--data", data)
    subprocess.run(
        kilonova.command(*command, *options),
        env=kilonova.environment() | {"PYTHONPROFILEIMPORTTIME": "1"},
        check=True,
        capture_output=True,
    )
    log = (data / "log").read_text()
    return {line.rpartition("|")[2].strip() for line in log.splitlines()}


async def _list_definitions(kilonova: Kilonova, data: Path) -> dict[str, JsonObject]:
    """The stored CRDs by name, with their resource versions."""
    started = kilonova.detach(data, "--no-demo")
    assert started.code == 0, started.err
    async with connect(data / "kubeconfig") as client:
        listed = (await client.list(DEFINITIONS)).items
    return {each["metadata"]["name"]: each for each in listed}
