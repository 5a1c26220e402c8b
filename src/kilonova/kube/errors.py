"""What can go wrong between us and an API server.

The server refused: `ApiStatusError`, with a subclass where callers commonly tell one refusal
from another. The server was not reached, or the connection broke: `ConnectionFailed`. We do
not know how to reach it: `ConfigError`.
"""

from dataclasses import dataclass

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube.transport import Reply


class KubeError(Exception):
    """Any failure to talk to Kubernetes."""


class ConnectionFailed(KubeError):
    """The server was not reached, or what came back was cut off or no answer of an API."""


@dataclass(eq=False)
class ConfigError(KubeError):
    """A kubeconfig that cannot be used: where, what was found there, and how to mend it."""

    where: str
    problem: str
    fix: str = ""

    def __post_init__(self) -> None:
        super().__init__(str(self))

    def __str__(self) -> str:
        return f"{self.where}: {self.problem}" + (f"; {self.fix}" if self.fix else "")


@dataclass(eq=False)
class ApiStatusError(KubeError):
    """The server answered with a `Status` that says no.

    `retry_after` is in seconds, None when the server did not ask for a pause.
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
        """The fields or rules that the refusal names."""
        return self.details.get("causes") or []


class BadRequest(ApiStatusError):
    """400: the request itself makes no sense to the server."""


class Unauthorized(ApiStatusError):
    """401: the credentials are missing, wrong or expired."""


class Forbidden(ApiStatusError):
    """403: known, and not allowed."""


class NotFound(ApiStatusError):
    """404: no such object, or no such resource."""


class AlreadyExists(ApiStatusError):
    """409 on create: the name is taken."""


class Conflict(ApiStatusError):
    """409: the object changed meanwhile, or another manager owns the field."""


class Expired(ApiStatusError):
    """410: the resourceVersion or continue token is too old; list again."""


class Invalid(ApiStatusError):
    """422: the object breaks a rule; `causes` says which."""


class TooManyRequests(ApiStatusError):
    """429: slow down, or a disruption budget does not allow an eviction now."""

    @property
    def disruption_budget(self) -> bool:
        """Whether a PodDisruptionBudget said so, which no quick retry will change."""
        return any(cause.get("reason") == "DisruptionBudget" for cause in self.causes)


_BY_CODE: dict[int, type[ApiStatusError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    422: Invalid,
    429: TooManyRequests,
}


def error_of_reply(reply: Reply) -> ApiStatusError:
    """The error that a refused request is raised as.

    A body that is no Status (a proxy's page, plain text) becomes the message.
    """
    try:
        status = msgspec.json.decode(reply.body, type=JsonObject)
    except msgspec.DecodeError:
        status = {}
    if status.get("kind") != "Status":
        text = reply.body.decode(errors="replace").strip()[:500]
        status = {"message": text or "the server gave no reason"}
    return error_of_status(status, code=reply.status, headers=reply.headers)


def error_of_status(
    status: JsonObject, *, code: int = 0, headers: dict[str, str] | None = None
) -> ApiStatusError:
    """The error in a `Status` object, as in the ERROR event of a watch."""
    code = code or int(status.get("code") or 500)
    reason = str(status.get("reason") or "")
    cls = _BY_CODE.get(code, ApiStatusError)
    if cls is Conflict and reason == "AlreadyExists":
        cls = AlreadyExists
    details: JsonObject | None = status.get("details")
    return cls(
        code,
        reason or "Unknown",
        str(status.get("message") or ""),
        details or {},
        _seconds((headers or {}).get("retry-after")),
    )


def _seconds(header: str | None) -> float | None:
    return float(header) if header and header.isdigit() else None
