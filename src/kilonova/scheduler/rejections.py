"""Bindings that the API server rejects."""

from dataclasses import dataclass

from kilonova.kube import ApiStatusError

_PASSING = frozenset({401, 408, 425, 429})
"""Answers that say nothing about the request itself: it may be sent again as it is."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A pod that the API server did not bind to a node, and what it said."""

    pod: str
    node: str
    message: str


def is_rejection(error: ApiStatusError) -> bool:
    """Whether the same request will not be taken, however often it is sent."""
    return 400 <= error.code < 500 and error.code not in _PASSING
