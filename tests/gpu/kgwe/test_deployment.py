"""Ports, leader election and score weights that KGWE names."""

from pathlib import Path
from typing import Any

import yaml

from kilonova.kube.election.lease import LeaderElectionTiming
from kilonova.scheduler.core.scoring.plugins import default_scoring

DEPLOY = Path(__file__).parents[3] / "deploy"


def test_ports_are_those_of_kgwe() -> None:
    agent = ports_of(DEPLOY / "agent" / "daemonset.yaml")
    assert (agent["grpc"], agent["gpu-metrics"]) == (50052, 9400)
    assert ports_of(DEPLOY / "topology" / "deployment.yaml")["https"] == 8443


def test_leader_election_has_the_times_of_kgwe() -> None:
    timing = LeaderElectionTiming()
    assert (timing.lease_duration, timing.renew_deadline, timing.retry_period) == (15, 10, 2)


def test_score_weights_are_those_of_kgwe() -> None:
    weights = {each.name: each.weight for each in default_scoring().plugins}
    assert weights == {"preferences": 100, "topology": 40, "fit": 35, "balance": 25}


def ports_of(manifest: Path) -> dict[str, int]:
    """The ports of the container, by name."""
    body: Any = yaml.safe_load(manifest.read_text())
    (container,) = body["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each["containerPort"] for each in container["ports"]}
