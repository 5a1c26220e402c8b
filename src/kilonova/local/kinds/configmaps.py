"""ConfigMaps."""

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, forbidden_field, invalid_value
from kilonova.local.kinds.base import Column
from kilonova.local.kinds.columns import AGE, NAME
from kilonova.local.kinds.strategy import Strategy, strategy
from kilonova.local.kinds.walk import part
from kilonova.local.names import config_key

_LIMIT = 1024 * 1024


@strategy("", "ConfigMap")
class ConfigMaps(Strategy):
    """Text and bytes by key."""

    columns = (
        NAME,
        Column(
            "Data",
            "string",
            lambda obj, _: len(obj.get("data") or ()) + len(obj.get("binaryData") or ()),
        ),
        AGE,
    )

    def problems(self, obj: JsonObject) -> list[Problem]:
        text, binary = part(obj, "data"), part(obj, "binaryData")
        problems = [*key_problems(text, "data"), *key_problems(binary, "binaryData")]
        problems += [
            invalid_value("data" + f"[{key}]", key, "duplicate of key present in binaryData")
            for key in text
            if key in binary
        ]
        size = sum(len(value.encode()) for value in text.values())
        size += sum(len(value) * 3 // 4 for value in binary.values())
        return problems + size_problems(size)

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[Problem]:
        return frozen_problems(new, old, ("data", "binaryData"))


def key_problems(data: JsonObject, path: str) -> list[Problem]:
    """Keys of ConfigMaps and Secrets become file names."""
    return [
        invalid_value(f"{path}[{key}]", key, trouble)
        for key in data
        if (trouble := config_key(key))
    ]


def size_problems(size: int, path: str = "[]") -> list[Problem]:
    """All values together may have a mebibyte."""
    if size <= _LIMIT:
        return []
    message = f"Too long: may not be more than {_LIMIT} bytes"
    return [Problem(path, "FieldValueTooLong", message)]


def frozen_problems(new: JsonObject, old: JsonObject, fields: tuple[str, ...]) -> list[Problem]:
    """Once immutable, always immutable."""
    if not old.get("immutable"):
        return []
    detail = "field is immutable when `immutable` is set"
    changed = [] if new.get("immutable") else ["immutable"]
    changed += [field for field in fields if (new.get(field) or {}) != (old.get(field) or {})]
    return [forbidden_field(field, detail) for field in changed]
