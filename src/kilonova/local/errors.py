"""Refusals, as Kubernetes words them: every error a client sees is a `Status` object."""

from dataclasses import dataclass, field
from typing import Any

from kilonova.api.json import JsonObject


@dataclass(frozen=True, slots=True)
class Problem:
    """One field that is wrong: what a `Status` lists as a cause.

    `path` is written as users know it (`spec.containers[0].name`), `reason` is one of the
    `FieldValue…` words, `message` is complete (`Invalid value: "x": must be …`).
    """

    path: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def _shown(value: object) -> str:
    import msgspec

    if value is None:
        return "null"
    return msgspec.json.encode(value).decode()


def invalid_value(path: str, value: Any, detail: str) -> Problem:
    """The value is of the right type and not acceptable."""
    return Problem(path, "FieldValueInvalid", f"Invalid value: {_shown(value)}: {detail}")


def required(path: str, detail: str = "") -> Problem:
    return Problem(path, "FieldValueRequired", "Required value" + (f": {detail}" if detail else ""))


def not_supported(path: str, value: Any, allowed: list[str]) -> Problem:
    words = ", ".join(f'"{word}"' for word in allowed)
    return Problem(
        path,
        "FieldValueNotSupported",
        f"Unsupported value: {_shown(value)}: supported values: {words}",
    )


def not_found_value(path: str, value: Any) -> Problem:
    """A value that names something that is not there."""
    return Problem(path, "FieldValueNotFound", f"Not found: {_shown(value)}")


def duplicate(path: str, value: Any) -> Problem:
    return Problem(path, "FieldValueDuplicate", f"Duplicate value: {_shown(value)}")


def forbidden_field(path: str, detail: str) -> Problem:
    return Problem(path, "FieldValueForbidden", f"Forbidden: {detail}")


def too_long(path: str, limit: int) -> Problem:
    return Problem(path, "FieldValueTooLong", f"Too long: may not be more than {limit} bytes")


@dataclass(eq=False)
class ApiError(Exception):
    """A request that is refused. Raised anywhere below the border, shown once, there."""

    code: int
    reason: str
    message: str
    details: JsonObject | None = None
    headers: dict[str, str] = field(default_factory=dict[str, str])
    metadata: JsonObject = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        super().__init__(self.message)

    def status(self) -> JsonObject:
        """The `Status` object that goes over the wire."""
        body: JsonObject = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.metadata,
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "details": self.details,
            "code": self.code,
        }
        return {key: value for key, value in body.items() if value not in (None, "")}


def _details(group: str, resource: str, name: str, **more: Any) -> JsonObject:
    details: JsonObject = {"name": name, "group": group, "kind": resource, **more}
    return {key: value for key, value in details.items() if value not in ("", None)}


def _qualified(group: str, resource: str) -> str:
    return f"{resource}.{group}" if group else resource


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def unauthorized(message: str = "Unauthorized") -> ApiError:
    return ApiError(401, "Unauthorized", message)


def forbidden(group: str, resource: str, name: str, detail: str) -> ApiError:
    what = f'{_qualified(group, resource)} "{name}"' if name else _qualified(group, resource)
    return ApiError(
        403, "Forbidden", f"{what} is forbidden: {detail}", _details(group, resource, name)
    )


def not_found(group: str, resource: str, name: str) -> ApiError:
    return ApiError(
        404,
        "NotFound",
        f'{_qualified(group, resource)} "{name}" not found',
        _details(group, resource, name),
    )


def no_such_path() -> ApiError:
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def method_not_allowed() -> ApiError:
    return ApiError(
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
        {},
    )


def already_exists(group: str, resource: str, name: str) -> ApiError:
    return ApiError(
        409,
        "AlreadyExists",
        f'{_qualified(group, resource)} "{name}" already exists',
        _details(group, resource, name),
    )


def conflict(group: str, resource: str, name: str, detail: str) -> ApiError:
    return ApiError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {_qualified(group, resource)} "{name}": {detail}',
        _details(group, resource, name),
    )


def object_modified(group: str, resource: str, name: str) -> ApiError:
    return conflict(
        group,
        resource,
        name,
        "the object has been modified; please apply your changes to the latest version "
        "and try again",
    )


@dataclass(eq=False)
class PageNotFound(Exception):
    """A path of which the server knows nothing at all: not even a Status is given."""


def expired(message: str, details: JsonObject | None = None) -> ApiError:
    return ApiError(410, "Expired", message, details)


def invalid(group: str, kind: str, name: str, problems: list[Problem]) -> ApiError:
    """422 with a cause for each problem."""
    texts = list(dict.fromkeys(str(problem) for problem in problems))
    summary = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    causes = [
        {"reason": problem.reason, "message": problem.message, "field": problem.path}
        for problem in problems
    ]
    return ApiError(
        422,
        "Invalid",
        f'{_qualified(group, kind)} "{name}" is invalid: {summary}',
        _details(group, kind, name, causes=causes),
    )


def unsupported_media_type(message: str) -> ApiError:
    return ApiError(415, "UnsupportedMediaType", message)


def not_acceptable(offered: str) -> ApiError:
    return ApiError(
        406,
        "NotAcceptable",
        f"only the following media types are accepted: {offered}",
    )


def too_large(limit: int) -> ApiError:
    return ApiError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def too_many_requests(message: str, retry_after: int, causes: list[JsonObject]) -> ApiError:
    details: JsonObject = {}
    if causes:
        details["causes"] = causes
    if retry_after:
        details["retryAfterSeconds"] = retry_after
    headers = {"Retry-After": str(retry_after)} if retry_after else {}
    return ApiError(429, "TooManyRequests", message, details or None, headers)


def internal(message: str) -> ApiError:
    return ApiError(500, "InternalError", message)
