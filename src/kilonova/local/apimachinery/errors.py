"""API errors in Kubernetes' wording: each is sent to the client as a `Status` object."""

from dataclasses import dataclass, field
from typing import Any

from kilonova.api.json import JsonObject


@dataclass(frozen=True, slots=True)
class FieldError:
    """One invalid field: a cause in the details of a `Status` (field.Error of apimachinery).

    `path` is a field path (`spec.containers[0].name`), `reason` is one of the `FieldValue…` cause
    types, `message` is complete (`Invalid value: "x": must be …`).
    """

    path: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def _format_value(value: object) -> str:
    import msgspec

    if value is None:
        return "null"
    return msgspec.json.encode(value).decode()


def invalid_value(path: str, value: Any, detail: str) -> FieldError:
    """The value has the right type but is not valid."""
    return FieldError(path, "FieldValueInvalid", f"Invalid value: {_format_value(value)}: {detail}")


def required_value(path: str, detail: str = "") -> FieldError:
    return FieldError(
        path, "FieldValueRequired", "Required value" + (f": {detail}" if detail else "")
    )


def not_supported_value(path: str, value: Any, allowed: list[str]) -> FieldError:
    values = ", ".join(f'"{item}"' for item in allowed)
    return FieldError(
        path,
        "FieldValueNotSupported",
        f"Unsupported value: {_format_value(value)}: supported values: {values}",
    )


def not_found_value(path: str, value: Any) -> FieldError:
    """The value names something that does not exist."""
    return FieldError(path, "FieldValueNotFound", f"Not found: {_format_value(value)}")


def duplicate_value(path: str, value: Any) -> FieldError:
    return FieldError(path, "FieldValueDuplicate", f"Duplicate value: {_format_value(value)}")


def forbidden_value(path: str, detail: str) -> FieldError:
    return FieldError(path, "FieldValueForbidden", f"Forbidden: {detail}")


def too_long_value(path: str, limit: int) -> FieldError:
    return FieldError(path, "FieldValueTooLong", f"Too long: may not be more than {limit} bytes")


@dataclass(eq=False)
class ApiError(Exception):
    """A request that fails. Raised anywhere in the server, converted to a response in one place."""

    code: int
    reason: str
    message: str
    details: JsonObject | None = None
    headers: dict[str, str] = field(default_factory=dict[str, str])
    metadata: JsonObject = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        super().__init__(self.message)

    def status(self) -> JsonObject:
        """The `Status` object sent to the client."""
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


def _status_details(group: str, resource: str, name: str, **extra: Any) -> JsonObject:
    details: JsonObject = {"name": name, "group": group, "kind": resource, **extra}
    return {key: value for key, value in details.items() if value not in ("", None)}


def _qualified_resource(group: str, resource: str) -> str:
    return f"{resource}.{group}" if group else resource


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def unauthorized(message: str = "Unauthorized") -> ApiError:
    return ApiError(401, "Unauthorized", message)


def forbidden(group: str, resource: str, name: str, detail: str) -> ApiError:
    subject = (
        f'{_qualified_resource(group, resource)} "{name}"'
        if name
        else _qualified_resource(group, resource)
    )
    return ApiError(
        403,
        "Forbidden",
        f"{subject} is forbidden: {detail}",
        _status_details(group, resource, name),
    )


def not_found(group: str, resource: str, name: str) -> ApiError:
    return ApiError(
        404,
        "NotFound",
        f'{_qualified_resource(group, resource)} "{name}" not found',
        _status_details(group, resource, name),
    )


def path_not_found() -> ApiError:
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
        f'{_qualified_resource(group, resource)} "{name}" already exists',
        _status_details(group, resource, name),
    )


def conflict(group: str, resource: str, name: str, detail: str) -> ApiError:
    return ApiError(
        409,
        "Conflict",
        f"Operation cannot be fulfilled on {_qualified_resource(group, resource)} "
        f'"{name}": {detail}',
        _status_details(group, resource, name),
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
    """The path is not served at all: the response is a plain-text 404, not a `Status`."""


def expired(message: str, details: JsonObject | None = None) -> ApiError:
    return ApiError(410, "Expired", message, details)


def invalid(group: str, kind: str, name: str, problems: list[FieldError]) -> ApiError:
    """422 with a cause for each field error."""
    texts = list(dict.fromkeys(str(problem) for problem in problems))
    summary = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    causes = [
        {"reason": problem.reason, "message": problem.message, "field": problem.path}
        for problem in problems
    ]
    return ApiError(
        422,
        "Invalid",
        f'{_qualified_resource(group, kind)} "{name}" is invalid: {summary}',
        _status_details(group, kind, name, causes=causes),
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
