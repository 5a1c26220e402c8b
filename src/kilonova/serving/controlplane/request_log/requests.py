"""What is said of a logged request, and which of them are worth a look. Pure."""

import re
from collections.abc import Iterable
from datetime import datetime, timedelta

from kilonova.api.serving import TracedRequest
from kilonova.api.times import parse_time

MAX_REQUESTS = 10
"""How many a status has."""
WINDOW = timedelta(minutes=10)
"""How long it has them."""

_MAX_FAILED = 5
_MAX_TEXT = 200
_SERVER_ERROR = 500
_CODES = (
    *("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND"),
    *("ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION"),
    *("ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"),
    "UNAUTHENTICATED",
)
"""The statuses of gRPC, by number."""
_FAILURES = frozenset(
    {"", "UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"}
)
"""Those that indicate that a server or the gateway failed; empty if there was no answer at all."""
_MODEL = re.compile(r"/v2/models/([^/]+)")


def describe_request(method: str, path: str, grpc_status: str) -> str:
    """A request in a few words, without its query, which may have a token."""
    plain = path.partition("?")[0]
    text = f"gRPC {plain.rpartition('/')[2]}" if grpc_status else f"{method} {plain}"
    return text[:_MAX_TEXT]


def find_model(path: str, header: str) -> str:
    """The model, as far as the gateway knows it: by a header of its own, or by the path."""
    found = _MODEL.match(path)
    return (header or (found[1] if found else ""))[:_MAX_TEXT]


def describe_status(code: int, grpc_status: str) -> str:
    """The status of an answer: the name of gRPC's, or the number of HTTP's."""
    if grpc_status.isdecimal():
        number = int(grpc_status)
        return _CODES[number] if number < len(_CODES) else grpc_status
    return str(code) if code else ""


def is_failed(request: TracedRequest) -> bool:
    """Whether a server or the gateway failed, or the client left without an answer."""
    status = request.status
    return int(status) >= _SERVER_ERROR if status.isdecimal() else status in _FAILURES


def select_worst(requests: Iterable[TracedRequest], now: datetime) -> tuple[TracedRequest, ...]:
    """Of the last minutes: the latest that failed, then the slowest of the others."""
    since = now - WINDOW
    # In the order of the first occurrence: a request may be known from here and from the status.
    recent = [each for each in dict.fromkeys(requests) if parse_time(each.time) > since]
    failed = sorted(filter(is_failed, recent), key=lambda each: each.time, reverse=True)
    others = [each for each in recent if not is_failed(each)]
    slowest = sorted(others, key=lambda each: each.duration, reverse=True)
    chosen = failed[: max(_MAX_FAILED, MAX_REQUESTS - len(slowest))][:MAX_REQUESTS]
    return (*chosen, *slowest[: MAX_REQUESTS - len(chosen)])
