"""Which fields an endpoint does not write, and so does not own."""

from kilonova.local.kinds.base import Kind

_STATUS = (("status",),)
_NOTHING: tuple[tuple[str, ...], ...] = ()


def untracked(kind: Kind, subresource: str) -> tuple[tuple[str, ...], ...]:
    """Paths that a write through this endpoint leaves alone, for server-side apply's books."""
    if subresource == "status":
        others = [name for name in kind.schema.properties if name not in ("metadata", "status")]
        return tuple((name,) for name in others)
    return _STATUS if kind.behavior.status_by_subresource else _NOTHING
