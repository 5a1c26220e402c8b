"""Why a patch was refused."""

from dataclasses import dataclass

from kilonova.local.errors import ApiError

_REJECTED = "the server rejected our request due to an error in our request"


@dataclass(eq=False)
class PatchError(ApiError):
    """A patch that cannot be read or does not fit the object.

    `detail` says what was wrong where Kubernetes tells the client nothing of it.
    """

    detail: str = ""


def malformed(message: str) -> PatchError:
    """The patch is not of the form that its type asks for."""
    return PatchError(400, "BadRequest", message)


def does_not_fit(detail: str) -> PatchError:
    """A well-formed JSON patch whose path or test fails on this object."""
    return PatchError(422, "Invalid", _REJECTED, details={}, detail=detail)


def too_many_operations(limit: int, given: int) -> PatchError:
    """A JSON patch longer than the server works through."""
    return PatchError(
        413,
        "RequestEntityTooLarge",
        f"Request entity too large: The allowed maximum operations in a JSON patch is {limit}, "
        f"got {given}",
    )


def unprocessable(message: str) -> PatchError:
    """A strategic merge patch that breaks a rule of merging; Kubernetes answers 500."""
    return PatchError(500, "", message)
