"""Settings of the two programs; invalid ones name the flag and the variable."""

from dataclasses import dataclass

from kilonova.api.inference_engine.names import HTTP_PORT, JOIN_PORT
from kilonova.component.failure import WrongUsage

HEARTBEAT_SECONDS = 1.0


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
