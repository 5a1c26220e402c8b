"""Errors of the client.

`ApiStatusError`: the server rejected the request; it has subclasses for the cases that callers
commonly distinguish. `ConnectionFailed`: the server was not reached, or the connection broke.
`ConfigError`: the client configuration is invalid.
"""

from dataclasses import dataclass

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube.client.transport import Reply


class KubeError(Exception):
    """Any failure to talk to Kubernetes."""


class ConnectionFailed(KubeError):
    """The server was not reached, or its response was truncated or is not an API response."""


@dataclass(eq=False)
class ConfigError(KubeError):
    """An invalid kubeconfig: the location, the problem, and how to fix it."""

    where: str
    problem: str
    fix: str = ""

    def __post_init__(self) -> None:
        super().__init__(str(self))

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}" + (f"; {self.fix}" if self.fix else "")


@dataclass(eq=False)
class ApiStatusError(KubeError):
    """The server rejected the request with a `Status`.

    `retry_after` is in seconds; None if the server did not request a delay.
    """

    code: int
    reason: str
    message: str
    details: JsonObject
    retry_after: float | None = None

    def __post_init__(self) -> None:
        super().__init__(str(self))

    def __str__(self) -> str:
        return f"{self.message} ({self.code} {self.reason})"

    @property
    def causes(self) -> list[JsonObject]:
        """The fields or rules named by the rejection."""
        return self.details.get("causes") or []


class BadRequest(ApiStatusError):
    """400: the server does not understand the request."""


class Unauthorized(ApiStatusError):
    """401: the credentials are missing, wrong or expired."""


class Forbidden(ApiStatusError):
    """403: authenticated, but not allowed."""


class NotFound(ApiStatusError):
    """404: no such object, or no such resource."""


class AlreadyExists(ApiStatusError):
    """409 on create: an object of this name exists."""


class Conflict(ApiStatusError):
    """409: the object changed since it was read, or another manager owns the field."""


class Expired(ApiStatusError):
    """410: the resourceVersion or continue token is too old; list again."""


class Invalid(ApiStatusError):
    """422: the object violates a rule; `causes` specifies which."""


class TooManyRequests(ApiStatusError):
    """429: throttled, or a disruption budget does not allow an eviction now."""

    @property
    def blocked_by_disruption_budget(self) -> bool:
        """Whether a PodDisruptionBudget is the cause, so that a quick retry will not help."""
        return any(cause.get("reason") == "DisruptionBudget" for cause in self.causes)


_ERRORS_BY_CODE: dict[int, type[ApiStatusError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    422: Invalid,
    429: TooManyRequests,
}


def error_from_reply(reply: Reply) -> ApiStatusError:
    """The error that a rejected request is raised as.

    A body that is not a Status (a proxy's page, plain text) becomes the message.
    """
    try:
        status = msgspec.json.decode(reply.body, type=JsonObject)
    except msgspec.DecodeError:
        status = {}
    if status.get("kind") != "Status":
        text = reply.body.decode(errors="replace").strip()[:500]
        status = {"message": text or "the server gave no reason"}
    return error_from_status(status, code=reply.status, headers=reply.headers)


def error_from_status(
    status: JsonObject, *, code: int = 0, headers: dict[str, str] | None = None
) -> ApiStatusError:
    """The error in a `Status` object, as in the ERROR event of a watch."""
    code = code or int(status.get("code") or 500)
    reason = str(status.get("reason") or "")
    cls = _ERRORS_BY_CODE.get(code, ApiStatusError)
    if cls is Conflict and reason == "AlreadyExists":
        cls = AlreadyExists
    details: JsonObject | None = status.get("details")
    return cls(
        code,
        reason or "Unknown",
        str(status.get("message") or ""),
        details or {},
        _parse_retry_after((headers or {}).get("retry-after")),
    )


def _parse_retry_after(header: str | None) -> float | None:
    return float(header) if header and header.isdigit() else None
