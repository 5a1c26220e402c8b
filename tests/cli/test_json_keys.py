"""What programs read is in camel case, whichever command printed it."""

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

from kilonova.cli.commands import app
from kilonova.kube import connect
from tests.cli.command import Kilonova
from tests.local.embedded_cluster import PODS
from tests.scheduler.scheduling import GANGS, QUEUES, gang, pod

ODD = "example.com/odd_part"
"""A resource, named by a user."""

ON = ("--data", "cluster")
TRIED: dict[str, tuple[list[tuple[str, ...]], str]] = {
    "status": ([ON], "resourceVersion processNode"),
    "nodes": ([ON], "gpusHeld"),
    "workloads": ([ON], ""),
    "gangs": ([ON], ""),
    "queues": ([ON, ("few", *ON)], "fairShare pendingGangs"),
    "why": (
        [(name, *ON) for name in ("standing", "held", "wide", "partial")],
        "notYet expectedStart runnerUp leftOut",
    ),
    "plan": ([("-f", "new.yaml", *ON), ("--moves", *ON)], "makesRoomFor lostWork"),
    "doctor": ([ON], ""),
    "snapshot show": ([("it.json",)], "notYet partUsed freeMilli splitMilli fairShare"),
    "snapshot replay": ([("it.json",)], ""),
}
"""By command: how it is called, so that all of what it prints comes up, and keys of two words that
must be there."""


@pytest.fixture(scope="module", autouse=True)
def busy(cluster_command: Kilonova, cluster: Path) -> None:
    """One pod stands; one waits for its queue, a gang for room, another gang for a pod. A snapshot
    of it, and a manifest."""
    asyncio.run(_fill(cluster / "kubeconfig"))
    (cluster_command.home / "new.yaml").write_text(yaml.safe_dump(pod("new", 1)))
    saved = cluster_command("snapshot", "save", "it.json", "--data", cluster)
    assert saved.code == 0, saved.err


async def _fill(kubeconfig: Path) -> None:
    async with connect(kubeconfig) as client:
        limit = {"nvidia.com/gpu": 2, ODD: 1}
        await client.create(QUEUES, {"metadata": {"name": "few"}, "spec": {"limit": limit}})
        held = pod("held", 4)
        held["metadata"]["labels"]["scheduling.kilonova.dev/queue"] = "few"
        wide = (pod(name, 9, of="wide") for name in ("w0", "w1"))
        for each in (pod("standing", 1), held, *wide, pod("p0", 1, of="partial")):
            await client.create(PODS, each, "default")
        await client.create(GANGS, gang("wide", {"w": ["w0", "w1"]}), "default")
        await client.create(GANGS, gang("partial", {"p": ["p0", "p1"]}), "default")
        async with asyncio.timeout(30):
            while (await client.get(PODS, "standing", "default"))["status"]["phase"] != "Running":
                await asyncio.sleep(0.05)


@pytest.mark.parametrize("command", TRIED)
def test_keys_are_in_camel_case(cluster_command: Kilonova, command: str):
    calls, expected = TRIED[command]
    keys: set[str] = set()
    for words in calls:
        done = cluster_command(*command.split(), *words, "-o", "json")
        assert done.out, done.err
        keys |= set(_keys(json.loads(done.out)))
    ours = {key for key in keys if "/" not in key}
    assert [key for key in ours if "_" in key or key[0].isupper()] == []
    assert set(expected.split()) <= ours


def test_names_of_resources_stay_as_they_are(cluster_command: Kilonova):
    queue = json.loads(cluster_command("queues", "few", *ON, "-o", "json").out)
    assert queue["limit"] == {"nvidia.com/gpu": "2", ODD: "1"}


def test_no_command_that_prints_json_is_forgotten_here():
    offers = re.compile(r"--output <[^>]*\bjson\b")
    run = CliRunner().invoke
    found = {
        command
        for command in _commands(get_command(app))
        if offers.search(run(app, [*command.split(), "--help"]).output)
    }
    assert found == set(TRIED)


def _keys(value: object) -> Iterator[str]:
    """Every key of objects in it, however deep."""
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
    """Every command that can be typed."""
    for name, each in group.commands.items():
        if hasattr(each, "commands"):
            yield from _commands(each, f"{path}{name} ")
        else:
            yield f"{path}{name}"
