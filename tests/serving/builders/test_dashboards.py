"""The ConfigMap with the dashboards of a service."""

import json
from typing import Any

import pytest

from kilonova.serving.controllers.service.desire import desire
from kilonova.serving.controllers.service.observed import ObservedService
from kilonova.serving.gateway.model import ControlPlaneAddress
from tests.serving.builders.objects import SETTINGS, service

GROUP = {"name": "model", "protocol": "V2"}


def build_boards(**spec: Any) -> dict[str, Any]:
    """The dashboards of a service, by the beginning of their identifiers."""
    observed = ObservedService(
        service(GROUP, monitoring={"dashboards": True}, **spec), ControlPlaneAddress("c", 1), "t"
    )
    (found,) = (
        each.body for each in desire(observed, SETTINGS).objects if each.name == "web-dashboards"
    )
    boards = [json.loads(each) for each in found["data"].values()]
    return {each["uid"].partition("-")[0]: each for each in boards}


def find_data_sources(board: Any) -> list[str]:
    variables = board["templating"]["list"]
    return [each["query"] for each in variables if each["type"] == "datasource"]


def test_traced_service_has_the_map_of_its_servers() -> None:
    board = build_boards(gateway={"tracing": {"endpoint": "tempo:4317"}})["supersonic"]
    (found,) = (each for each in board["panels"] if each["type"] == "nodeGraph")
    assert found["datasource"] == {"type": "tempo", "uid": "${traces}"}
    assert [each["queryType"] for each in found["targets"]] == ["serviceMap"]
    assert find_data_sources(board) == ["prometheus", "tempo"]


def test_service_without_traces_needs_no_tempo() -> None:
    for board in build_boards().values():
        assert "nodeGraph" not in {each["type"] for each in board["panels"]}
        assert find_data_sources(board) == ["prometheus"]


@pytest.mark.parametrize("gateway", [{}, {"tracing": {"endpoint": "tempo:4317"}}])
def test_window_of_supersonic_is_three_hours(gateway: Any) -> None:
    boards = build_boards(gateway=gateway)
    assert boards["supersonic"]["time"] == {"from": "now-3h", "to": "now"}
    assert boards["serving"]["time"] == {"from": "now-1h", "to": "now"}
