"""What a held request is answered, in terms of `ext_authz`."""

from dataclasses import dataclass
from enum import Enum

_OK, _RESOURCE_EXHAUSTED, _UNAVAILABLE = 0, 8, 14
"""Statuses of gRPC."""


class HoldOutcome(Enum):
    """How the hold of a request ended."""

    READY = "ready"
    """There is a server, and the gateways know it."""
    TIMEOUT = "timeout"
    """None became ready within the time."""
    FULL = "full"
    """Too many requests are held already."""
    NO_SERVER = "no_server"
    """There is none, and none is to come."""


@dataclass(frozen=True, slots=True)
class CheckAnswer:
    """The answer to a check: OK, or a refusal by which clients know when to try again."""

    grpc_status: int = _OK
    http_status: int = 0
    """0 to let the request go on."""
    message: str = ""
    headers: tuple[tuple[str, str], ...] = ()


def build_check_answer(outcome: HoldOutcome, group: str, retry_after: int) -> CheckAnswer:
    """The answer for an outcome; `retry_after` are seconds."""
    match outcome:
        case HoldOutcome.READY:
            return CheckAnswer()
        case HoldOutcome.FULL:
            message = f"too many requests wait for a server of group {group}"
            return _refuse(_RESOURCE_EXHAUSTED, 429, message, retry_after)
        case HoldOutcome.TIMEOUT:
            message = f"no server of group {group} became ready in time"
            return _refuse(_UNAVAILABLE, 503, message, retry_after)
        case HoldOutcome.NO_SERVER:
            message = f"group {group} has no server"
            return _refuse(_UNAVAILABLE, 503, message, retry_after)


def _refuse(grpc_status: int, http_status: int, message: str, retry_after: int) -> CheckAnswer:
    headers = (
        ("retry-after", str(retry_after)),
        # Clients of gRPC read this one, in milliseconds.
        ("grpc-retry-pushback-ms", str(retry_after * 1000)),
    )
    return CheckAnswer(grpc_status, http_status, message, headers)
