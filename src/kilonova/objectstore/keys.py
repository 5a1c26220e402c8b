"""What a key may look like, in every store."""

from kilonova.objectstore.errors import InvalidKey

RESERVED_SEGMENT = ".kilonova"
"""The first segment of what a `DirectoryStore` keeps for itself."""

_MAX_KEY_BYTES = 1024
_MAX_SEGMENT_BYTES = 255


def check_key(store: str, key: str) -> None:
    """Raise `InvalidKey` for a key that some store cannot hold.

    Keys are paths: segments between slashes, none of them empty, `.` or `..`.
    """
    problem = _find_problem(key)
    if problem:
        raise InvalidKey(
            f"{store}/{key[:80]}", problem, "use a relative path such as models/llama/config.json"
        )


def check_prefix(store: str, prefix: str) -> None:
    """Raise `InvalidKey` for a prefix with which no key can start."""
    if prefix:
        check_key(store, f"{prefix}x")


def _find_problem(key: str) -> str:
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        return "the key is not valid Unicode"
    segments = key.split("/")
    if size > _MAX_KEY_BYTES:
        return f"the key has {size} bytes, more than {_MAX_KEY_BYTES}"
    if any(segment in ("", ".", "..") for segment in segments):
        return "the key is empty, or a part between slashes is empty, '.' or '..'"
    if any(len(segment.encode()) > _MAX_SEGMENT_BYTES for segment in segments):
        return f"a part between slashes has more than {_MAX_SEGMENT_BYTES} bytes"
    if any(ord(character) < 32 or ord(character) == 127 for character in key):
        return "the key contains a control character"
    if segments[0] == RESERVED_SEGMENT:
        return f"keys below {RESERVED_SEGMENT}/ are reserved"
    return ""
