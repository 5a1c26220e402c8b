"""The Services of `deploy/operator`: one for webhooks alone, one that finds each copy's metrics."""

from pathlib import Path
from typing import Any

import pytest
import yaml

MANIFESTS = Path(__file__).parents[3] / "deploy" / "operator"


def objects(file: str) -> list[Any]:
    return list(yaml.safe_load_all((MANIFESTS / file).read_text()))


SERVICES = {each["metadata"]["name"]: each["spec"] for each in objects("service.yaml")}
(DEPLOYMENT,) = objects("deployment.yaml")


def test_webhooks_are_all_that_their_service_has() -> None:
    assert [each["port"] for each in SERVICES["kilonova-operator"]["ports"]] == [443]


def test_metrics_of_each_copy_are_found() -> None:
    spec = SERVICES["kilonova-operator-metrics"]
    assert spec["clusterIP"] == "None"
    assert spec["publishNotReadyAddresses"]


@pytest.mark.parametrize("name", SERVICES)
def test_services_lead_to_ports_of_the_operator(name: str) -> None:
    pods = DEPLOYMENT["spec"]["template"]
    (container,) = pods["spec"]["containers"]
    ports = {each["name"] for each in container["ports"]}
    assert {each["targetPort"] for each in SERVICES[name]["ports"]} <= ports
    assert SERVICES[name]["selector"].items() <= pods["metadata"]["labels"].items()
