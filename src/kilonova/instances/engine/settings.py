"""Settings of the two programs; invalid ones name the flag and the variable."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kilonova.api.inference_engine.names import HTTP_PORT, JOIN_PORT
from kilonova.component.failure import WrongUsage

HEARTBEAT_SECONDS = 1.0
MIN_HEARTBEAT_SECONDS = 0.05
_MAX_NUMBER = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """What agents and the conductor of an instance have in common."""

    model: str
    agents: int
    host: str = ""
    """The address to listen on; empty for all."""
    port: int = HTTP_PORT
    """The port of the API, and of health checks and metrics."""
    heartbeat: float = HEARTBEAT_SECONDS

    def __post_init__(self) -> None:
        if not self.model:
            raise WrongUsage("--model (ENGINE_MODEL) is empty: give the name of the model")
        if self.agents < 1:
            raise WrongUsage(f"--agents (ENGINE_AGENTS) is {self.agents}: use at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConductorSettings(EngineSettings):
    """The conductor."""

    join_port: int = JOIN_PORT


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings(EngineSettings):
    """An agent."""

    index: int
    conductor_host: str
    conductor_port: int

    def __post_init__(self) -> None:
        EngineSettings.__post_init__(self)
        if not 0 <= self.index < self.agents:
            raise WrongUsage(
                f"--index (ENGINE_AGENT_INDEX) is {self.index}: use 0 to {self.agents - 1}, "
                f"there are {self.agents} agents"
            )


def parse_address(text: str) -> tuple[str, int]:
    """`HOST:PORT` of the conductor, or HOST."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(JOIN_PORT)
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise WrongUsage(f"--conductor (ENGINE_CONDUCTOR) is {text!r}: write HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)


def read_settings(environment: Mapping[str, str]) -> AgentSettings | ConductorSettings:
    """The settings of what `ENGINE_ROLE` names, from the variables of a pod."""
    common: dict[str, Any] = {
        "model": environment.get("ENGINE_MODEL", ""),
        "agents": _read_number(environment, "ENGINE_AGENTS", None),
        "host": environment.get("ENGINE_HOST", ""),
        "port": _read_number(environment, "ENGINE_PORT", HTTP_PORT),
    }
    match environment.get("ENGINE_ROLE", ""):
        case "agent":
            host, port = parse_address(environment.get("ENGINE_CONDUCTOR", ""))
            index = _read_number(environment, "ENGINE_AGENT_INDEX", None)
            return AgentSettings(**common, index=index, conductor_host=host, conductor_port=port)
        case "conductor":
            return ConductorSettings(
                **common,
                join_port=_read_number(environment, "ENGINE_JOIN_PORT", JOIN_PORT),
                heartbeat=_read_seconds(environment, "ENGINE_HEARTBEAT", HEARTBEAT_SECONDS),
            )
        case role:
            raise WrongUsage(f"ENGINE_ROLE is {role!r}: use agent or conductor")


def _read_number(environment: Mapping[str, str], name: str, default: int | None) -> int:
    text = environment.get(name, "")
    if not text and default is not None:
        return default
    if not text.isascii() or not text.isdecimal() or int(text) > _MAX_NUMBER:
        raise WrongUsage(f"{name} is {text!r}: write a number from 0 to {_MAX_NUMBER}")
    return int(text)


def _read_seconds(environment: Mapping[str, str], name: str, default: float) -> float:
    text = environment.get(name, "")
    try:
        seconds = float(text) if text else default
    except ValueError:
        seconds = 0.0
    if not MIN_HEARTBEAT_SECONDS <= seconds < float("inf"):
        raise WrongUsage(f"{name} is {text!r}: write seconds, at least {MIN_HEARTBEAT_SECONDS}")
    return seconds
