"""Bindings that the API server rejects."""

from dataclasses import dataclass

from kilonova.kube import ApiStatusError

_TRANSIENT_CODES = frozenset({401, 408, 425, 429})
"""Status codes that do not concern the request itself: it may be sent again unchanged."""


@dataclass(frozen=True, slots=True)
class BindingRejection:
    """A pod that the API server refused to bind to a node, and the error message."""

    pod: str
    node: str
    message: str


def is_permanent_rejection(error: ApiStatusError) -> bool:
    """Whether the same request would fail again, however often it is sent."""
    return 400 <= error.code < 500 and error.code not in _TRANSIENT_CODES
