"""Which fields an endpoint does not write, and so does not own."""

from kilonova.local.apply import Filter, ignoring, only
from kilonova.local.kinds.base import Kind

_WITHOUT_STATUS = ignoring("status")
_STATUS_ONLY = only("status")
_STATUS_AND_METADATA = only("status", "metadata")


def untracked(kind: Kind, subresource: str) -> Filter | None:
    """What is left of a write's fields when those that this endpoint ignores are taken away."""
    if subresource == "status":
        keeps_metadata = kind.custom or kind.behavior.status_keeps_metadata
        return _STATUS_ONLY if keeps_metadata else _STATUS_AND_METADATA
    return _WITHOUT_STATUS if kind.behavior.status_by_subresource else None
