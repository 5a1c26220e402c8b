"""What people are told to try first."""

from dataclasses import dataclass

import pytest

from kilonova.cli.census import NodeCount
from kilonova.cli.welcome import Welcome, welcome_text


@dataclass(frozen=True)
class Case:
    """Which nodes there are, and the pod that would run on them."""

    simulated: bool
    tried: str


@pytest.mark.parametrize(
    "case",
    [
        Case(True, "  kubectl run hello --image=busybox"),
        Case(False, "  kubectl run hello --image=busybox --command -- sleep 1000"),
    ],
    ids=["simulated nodes", "only this machine"],
)
def test_the_first_pod_to_try_can_run_on_the_nodes_that_are_there(case: Case):
    nodes = NodeCount(1, 1)
    welcome = Welcome("https://localhost:1", "k", "d", 1.0, None, nodes, simulated=case.simulated)
    assert case.tried in welcome_text(welcome, detached=True).splitlines()
