"""Detection of duplicate fields in JSON text: decoders silently use the last one."""

import json
from typing import Any, cast

import msgspec


def find_duplicate_json_fields(raw: bytes, decoded: Any) -> list[str]:
    """`duplicate field "spec.x"` for each name that occurs twice in an object of the text.

    `decoded` is the decoded text. If it has as many quotation marks as the text when encoded again,
    there are no duplicates; only otherwise is the text parsed again, slowly. Call this before the
    object is modified.
    """
    if raw.count(b'"') == msgspec.json.encode(decoded).count(b'"') and b"\\u0022" not in raw:
        return []
    found: list[str] = []
    try:
        _collect_duplicates(json.loads(raw, object_pairs_hook=_FieldPairs), "", found)
    except (ValueError, RecursionError):
        return []  # not JSON, or too deep: reported by the decoding of the object
    return found


class _FieldPairs(list[tuple[str, Any]]):
    """An object as written: all its fields, in order."""


def _collect_duplicates(value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, _FieldPairs):
        seen: set[str] = set()
        for name, inner in value:
            inner_path = f"{path}.{name}" if path else name
            if name in seen:
                message = f'duplicate field "{inner_path}"'
                if message not in found:
                    found.append(message)
            seen.add(name)
            _collect_duplicates(inner, inner_path, found)
    elif isinstance(value, list):
        for index, inner in enumerate(cast(list[Any], value)):
            _collect_duplicates(inner, f"{path}[{index}]", found)
