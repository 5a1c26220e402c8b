"""Why a request is not answered, in the terms of both protocols."""

from enum import Enum

RETRY_SECONDS = 1
"""The hint of an answer that says to try again."""


class ErrorKind(Enum):
    """The name of the gRPC status, and the status of HTTP."""

    INVALID_ARGUMENT = 400
    NOT_FOUND = 404
    RESOURCE_EXHAUSTED = 429
    INTERNAL = 500
    UNAVAILABLE = 503


class InferenceFailed(Exception):
    """A request that is not answered."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind

    @property
    def may_retry(self) -> bool:
        """Whether the same request may succeed later."""
        return self.kind in (ErrorKind.RESOURCE_EXHAUSTED, ErrorKind.UNAVAILABLE)


class InvalidTensor(InferenceFailed):
    """A request that does not fit the model; the message names the tensor."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorKind.INVALID_ARGUMENT, message)


class ModelLoadFailed(Exception):
    """A model that cannot be loaded, and why."""
