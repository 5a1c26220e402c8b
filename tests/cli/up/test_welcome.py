"""Suggested commands after a start."""

from dataclasses import dataclass

import pytest

from kilonova.cli.up.object_counts import NodeCount
from kilonova.cli.up.welcome import Welcome, format_welcome


@dataclass(frozen=True)
class Case:
    """Whether there are simulated nodes, and the suggested command."""

    simulated: bool
    command: str


@pytest.mark.parametrize(
    "case",
    [
        Case(True, "  kubectl run hello --image=busybox"),
        Case(False, "  kubectl run hello --image=busybox --command -- sleep 1000"),
    ],
    ids=["simulated nodes", "only this machine"],
)
def test_suggested_pod_can_run_on_the_nodes(case: Case):
    nodes = NodeCount(1, 1)
    welcome = Welcome("https://localhost:1", "k", "d", 1.0, None, nodes, simulated=case.simulated)
    assert case.command in format_welcome(welcome, detached=True).splitlines()


def test_degraded_components_are_named_after_the_start():
    problems = {"greeter": "failed once and is restarted with backoff: boom"}
    welcome = Welcome(
        "https://localhost:1", "k", "d", 1.0, nodes=NodeCount(1, 1), problems=problems
    )
    lines = format_welcome(welcome, detached=True).splitlines()
    assert "  degraded greeter failed once and is restarted with backoff: boom" in lines
