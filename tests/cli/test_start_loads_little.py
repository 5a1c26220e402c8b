"""What a start does not do, so that it is quick; asserted without a clock."""

import subprocess
from pathlib import Path

from kilonova.api.json import JsonObject
from kilonova.cli.install import DEFINITIONS
from kilonova.cli.options import UpOptions
from kilonova.kube import connect
from tests.cli.command import Kilonova

LATER = {
    "aiohttp": "webhooks, and probes of pages",
    "cel_expr_python.cel": "rules, patterns and policies",
    "jwt": "tokens",
    "kilonova.cli.consolewhy": "reasons in the console",
    "rich.console": "a terminal",
    "typer": "a command line",
    "wsproto": "exec, attach and port-forward",
    "zoneinfo": "schedules in a time zone",
}
"""What is loaded when it is needed, and for what."""


def test_a_cluster_in_the_background_loads_only_what_every_one_needs(
    kilonova: Kilonova, tmp_path: Path
):
    loaded = loaded_by(kilonova, tmp_path / "data")
    assert {"kilonova.workloads.operator", "kilonova.console.server"} <= loaded
    assert loaded & set(LATER) == set()


def test_what_is_left_out_is_not_loaded(kilonova: Kilonova, tmp_path: Path):
    data = tmp_path / "data"
    loaded = loaded_by(kilonova, data, "--no-console", "--no-operator", "--no-scheduler")
    rooms = ("kilonova.console", "kilonova.workloads", "kilonova.scheduler")
    assert [name for name in loaded if name.startswith(rooms)] == []


async def test_a_second_start_writes_no_definition(kilonova: Kilonova, tmp_path: Path):
    data = tmp_path / "data"
    first = await _definitions(kilonova, data)
    assert kilonova("down", "--data", data).code == 0
    assert await _definitions(kilonova, data) == first


def test_options_reach_the_process_in_the_background_as_they_are():
    options = UpOptions(
        data=Path("/data"),
        host="::1",
        port=0,
        durability="normal",
        nodes="/fleet.yaml",
        demo=False,
        allowed_host_paths=(Path("/a b"), Path("/ü")),
    )
    assert UpOptions.read(options.written()) == options


def loaded_by(kilonova: Kilonova, data: Path, *options: str) -> set[str]:
    """The modules that a start with these options loads."""
    kilonova.ends_with_the_test(data)
    command = ("up", "--detach", "--wait", "--no-demo", "--port", "0", "--data", data)
    subprocess.run(
        kilonova.command(*command, *options),
        env=kilonova.environment() | {"PYTHONPROFILEIMPORTTIME": "1"},
        check=True,
        capture_output=True,
    )
    log = (data / "log").read_text()
    return {line.rpartition("|")[2].strip() for line in log.splitlines()}


async def _definitions(kilonova: Kilonova, data: Path) -> dict[str, JsonObject]:
    """What is stored of each, its version too, by name."""
    started = kilonova.detach(data, "--no-demo")
    assert started.code == 0, started.err
    async with connect(data / "kubeconfig") as client:
        listed = (await client.list(DEFINITIONS)).items
    return {each["metadata"]["name"]: each for each in listed}
