"""A component that belongs to the process of another one."""

import sys
from pathlib import Path
from textwrap import dedent

import pytest

from kilonova.component.failure import CommandFailed
from kilonova.component.process.process import Process
from kilonova.component.process.run import assemble_parts
from kilonova.component.registry import MODULES_VARIABLE
from kilonova.kube import Client, Manager
from kilonova.kube.observability.metrics import Metrics
from kilonova.kube.serving.health import Health
from tests.local.embedded_cluster import DEFINITIONS, definition, run_cluster

REGISTRATION = """
    from kilonova.component import Component, ProcessPart

    assembled = []

    async def assemble(process):
        assembled.append(process)

    COMPONENTS = (
        Component(
            name="widgets",
            summary="Makes widgets.",
            kinds=("widgets.example.com",),
            process=ProcessPart(name="PROCESS", assemble="widgets_parts:assemble"),
        ),
    )
"""


def register(folder: Path, monkeypatch: pytest.MonkeyPatch, process: str) -> None:
    """Register a component that belongs to a process."""
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, "widgets_parts", raising=False)
    text = dedent(REGISTRATION).replace("PROCESS", process)
    (folder / "widgets_parts.py").write_text(text)
    # Another text than that of other tests, since results are remembered by it.
    monkeypatch.setenv(MODULES_VARIABLE, f"widgets_parts{',' * len(process)}")


def process_on(client: Client) -> Process:
    return Process(client, client, Manager(), Health(), Metrics())


async def test_component_is_left_out_of_a_process_until_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(tmp_path, monkeypatch, "operator")
    async with run_cluster() as cluster:
        client = cluster.client("test")
        process = process_on(client)
        await assemble_parts(process, "operator")
        assembled: list[Process] = sys.modules["widgets_parts"].assembled
        assert assembled == []
        await client.create(DEFINITIONS, definition("example.com", "Widget", "widgets"))
        await assemble_parts(process, "operator")
        assert assembled == [process]


async def test_process_of_a_component_that_is_not_installed_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(tmp_path, monkeypatch, "widgets")
    async with run_cluster() as cluster:
        with pytest.raises(CommandFailed, match=r"not installed on this cluster: widgets\.example"):
            await assemble_parts(process_on(cluster.client("test")), "widgets")
