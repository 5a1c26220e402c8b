"""Settings from the variables of a pod."""

import pytest

from kilonova.component.failure import WrongUsage
from kilonova.instances.engine.settings import (
    AgentSettings,
    ConductorSettings,
    parse_address,
    read_settings,
)

COMMON = {"ENGINE_MODEL": "tiny", "ENGINE_AGENTS": "3"}
AGENT = {
    **COMMON,
    "ENGINE_ROLE": "agent",
    "ENGINE_AGENT_INDEX": "2",
    "ENGINE_CONDUCTOR": "iei-tiny.default.svc:8001",
}
CONDUCTOR = {**COMMON, "ENGINE_ROLE": "conductor"}


def test_agent_is_read_from_the_variables_of_its_pod() -> None:
    assert read_settings(AGENT | {"ENGINE_HOST": "10.0.0.1", "ENGINE_PORT": "80"}) == AgentSettings(
        model="tiny",
        agents=3,
        host="10.0.0.1",
        port=80,
        index=2,
        conductor_host="iei-tiny.default.svc",
        conductor_port=8001,
    )


def test_conductor_is_read_from_the_variables_of_its_pod() -> None:
    variables = CONDUCTOR | {"ENGINE_JOIN_PORT": "81", "ENGINE_HEARTBEAT": "0.5"}
    assert read_settings(variables) == ConductorSettings(
        model="tiny", agents=3, join_port=81, heartbeat=0.5
    )
    assert read_settings(CONDUCTOR) == ConductorSettings(model="tiny", agents=3)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({}, "ENGINE_AGENTS is ''"),
        (COMMON, "ENGINE_ROLE is '': use agent or conductor"),
        (CONDUCTOR | {"ENGINE_MODEL": ""}, "ENGINE_MODEL. is empty"),
        (CONDUCTOR | {"ENGINE_AGENTS": "0"}, "ENGINE_AGENTS. is 0: use at least 1"),
        (CONDUCTOR | {"ENGINE_AGENTS": "many"}, "ENGINE_AGENTS is 'many': write a number"),
        (CONDUCTOR | {"ENGINE_PORT": "-1"}, "ENGINE_PORT is '-1': write a number from 0 to 65535"),
        (CONDUCTOR | {"ENGINE_PORT": "65536"}, "ENGINE_PORT is '65536'"),
        (CONDUCTOR | {"ENGINE_HEARTBEAT": "0"}, "ENGINE_HEARTBEAT is '0': write seconds"),
        (CONDUCTOR | {"ENGINE_HEARTBEAT": "nan"}, "ENGINE_HEARTBEAT is 'nan'"),
        (AGENT | {"ENGINE_AGENT_INDEX": "3"}, "ENGINE_AGENT_INDEX. is 3: use 0 to 2, there are 3"),
        (AGENT | {"ENGINE_CONDUCTOR": ""}, "ENGINE_CONDUCTOR. is '': write HOST:PORT"),
    ],
)
def test_invalid_variable_is_named(variables: dict[str, str], message: str) -> None:
    with pytest.raises(WrongUsage, match=message):
        read_settings(variables)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("conductor:81", ("conductor", 81)),
        ("conductor", ("conductor", 8001)),
        ("10.0.0.1:81", ("10.0.0.1", 81)),
        ("[fd00::1]:81", ("fd00::1", 81)),
        ("[fd00::1]", ("fd00::1", 8001)),
    ],
)
def test_address_of_the_conductor_is_parsed(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address
