"""Fields that a JSON text gives twice: decoders keep the last and say nothing."""

import json
from typing import Any, cast

import msgspec


def duplicate_fields(raw: bytes, decoded: Any) -> list[str]:
    """`duplicate field "spec.x"` for each name that an object of the text has twice.

    `decoded` is what the text was decoded to. Where it is encoded again and has as many
    quotation marks as the text, nothing was lost, and that is all it takes; only otherwise
    is the text read again, slowly. So call it before the object is changed.
    """
    if raw.count(b'"') == msgspec.json.encode(decoded).count(b'"') and b"\\u0022" not in raw:
        return []
    found: list[str] = []
    try:
        _collect(json.loads(raw, object_pairs_hook=_Pairs), "", found)
    except (ValueError, RecursionError):
        return []  # not JSON, or too deep: the reading of the object has told, or will
    return found


class _Pairs(list[tuple[str, Any]]):
    """An object as written: all its fields, in order."""


def _collect(value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for name, inner in value:
            inner_path = f"{path}.{name}" if path else name
            if name in seen:
                message = f'duplicate field "{inner_path}"'
                if message not in found:
                    found.append(message)
            seen.add(name)
            _collect(inner, inner_path, found)
    elif isinstance(value, list):
        for index, inner in enumerate(cast(list[Any], value)):
            _collect(inner, f"{path}[{index}]", found)
