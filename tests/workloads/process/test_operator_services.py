"""The Services of `deploy/operator`: webhooks, and metrics of each replica."""

from pathlib import Path
from typing import Any

import pytest
import yaml

MANIFESTS = Path(__file__).parents[3] / "deploy" / "operator"


def load_objects(file: str) -> list[Any]:
    return list(yaml.safe_load_all((MANIFESTS / file).read_text()))


SERVICES = {each["metadata"]["name"]: each["spec"] for each in load_objects("service.yaml")}
(DEPLOYMENT,) = load_objects("deployment.yaml")


def test_webhook_service_exposes_only_webhooks() -> None:
    assert [each["port"] for each in SERVICES["kilonova-operator"]["ports"]] == [443]


def test_metrics_service_selects_every_replica() -> None:
    spec = SERVICES["kilonova-operator-metrics"]
    assert spec["clusterIP"] == "None"
    assert spec["publishNotReadyAddresses"]


@pytest.mark.parametrize("name", SERVICES)
def test_services_target_ports_of_the_operator(name: str) -> None:
    pods = DEPLOYMENT["spec"]["template"]
    (container,) = pods["spec"]["containers"]
    ports = {each["name"] for each in container["ports"]}
    assert {each["targetPort"] for each in SERVICES[name]["ports"]} <= ports
    assert SERVICES[name]["selector"].items() <= pods["metadata"]["labels"].items()
