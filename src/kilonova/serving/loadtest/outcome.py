"""What a target is, and how a request ended."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class RequestSize:
    """How large a request of an LLM is to be; None for what the target was built with."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a request ended. Times are those of the event loop's clock."""

    status: str
    """An HTTP status, the name of a gRPC status, or what went wrong before there was one."""
    is_ok: bool
    message: str = ""
    """What the server reports of a failure."""
    first_token_at: float | None = None
    """When the first token of a stream arrived."""
    token_gaps: tuple[float, ...] = ()
    """Seconds between the parts of a stream."""
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True)
class TargetDescription:
    """What is measured, for the head of a report."""

    address: str
    protocol: str
    model: str = ""


class Target(Protocol):
    """Sends requests; many at the same time."""

    @property
    def description(self) -> TargetDescription: ...

    async def send(self, size: RequestSize | None = None) -> Outcome:
        """Send a request and wait for all of its answer. Failures are outcomes, not exceptions;
        cancelling it closes the connection."""
        ...

    async def close(self) -> None: ...


TIMEOUT = "timeout"
"""The status of a request that took too long."""
