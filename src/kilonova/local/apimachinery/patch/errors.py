"""Errors of the patch types."""

from dataclasses import dataclass

from kilonova.local.apimachinery.errors import ApiError

_REJECTED_MESSAGE = "the server rejected our request due to an error in our request"


@dataclass(eq=False)
class PatchError(ApiError):
    """A patch that does not parse or does not apply to the object.

    `detail` is the cause where Kubernetes' message to the client does not include it.
    """

    detail: str = ""


def malformed_patch(message: str) -> PatchError:
    """The patch does not have the structure that its type requires."""
    return PatchError(400, "BadRequest", message)


def inapplicable_patch(detail: str) -> PatchError:
    """A well-formed JSON patch whose path or test fails on this object."""
    return PatchError(422, "Invalid", _REJECTED_MESSAGE, details={}, detail=detail)


def too_many_operations(limit: int, count: int) -> PatchError:
    """A JSON patch with more operations than the server accepts."""
    return PatchError(
        413,
        "RequestEntityTooLarge",
        f"Request entity too large: The allowed maximum operations in a JSON patch is {limit}, "
        f"got {count}",
    )


def unprocessable_patch(message: str) -> PatchError:
    """A strategic merge patch that violates a merge rule; Kubernetes responds with 500."""
    return PatchError(500, "", message)
