"""A cluster that is assembled from registrations."""

import asyncio
from pathlib import Path
from textwrap import dedent

import pytest

from kilonova.cli.up.components.assembly import ComponentListeners, assemble_cluster
from kilonova.cli.up.components.states import ComponentStates
from kilonova.component.registry import MODULES_VARIABLE
from kilonova.kube import ComponentHealth
from kilonova.local.cluster import ClusterSettings
from tests.local.embedded_cluster import LoopClock, virtual_time

pytestmark = virtual_time

REGISTRATION = """
    from kilonova.component import Component, EmbeddedPart

    COMPONENTS = (
        Component(
            name="broken",
            summary="Lacks a library.",
            embedded=EmbeddedPart(help="Run it.", build="broken_parts:build"),
        ),
    )
"""
PARTS = """
    import asyncio
    from kilonova.component.embedded import EmbeddedComponent

    class Steady:
        name = "steady"

        async def run(self):
            await asyncio.Event().wait()

    def build(context):
        return EmbeddedComponent(build_runnables=lambda: [Steady()])
"""


async def test_component_that_cannot_be_loaded_is_degraded_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "broken_component.py").write_text(dedent(REGISTRATION))
    monkeypatch.setenv(MODULES_VARIABLE, "broken_component")
    states, reports = ComponentStates(["broken"]), list[ComponentHealth]()

    def report(name: str, health: ComponentHealth) -> None:
        states.report_health(name, health)
        reports.append(health)

    assembly = assemble_cluster(
        ("broken",),
        ClusterSettings(port=None),
        LoopClock(),
        listeners=ComponentListeners(states.add_runnables, report),
    )
    await assembly.cluster.start()
    try:
        await asyncio.sleep(0.1)
        assert states.states == {"broken": "degraded"}
        assert "broken_parts:build cannot be loaded: No module named" in reports[0].problem
        (tmp_path / "broken_parts.py").write_text(dedent(PARTS))
        # Retries are at most a minute apart, and it has recovered after another one.
        await asyncio.sleep(180)
        assert states.states == {"broken": "running"}
        assert reports[-1] == ComponentHealth()
    finally:
        await assembly.cluster.stop()
