"""ConfigMaps."""

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError, forbidden_value, invalid_value
from kilonova.local.apimachinery.names import config_key_error
from kilonova.local.apimachinery.unstructured import nested_object
from kilonova.local.apiserver.kinds.columns import AGE, NAME
from kilonova.local.apiserver.kinds.kind import PrinterColumn
from kilonova.local.apiserver.kinds.strategy import BuiltinStrategy, register_strategy

_SIZE_LIMIT = 1024 * 1024


@register_strategy("", "ConfigMap")
class ConfigMapStrategy(BuiltinStrategy):
    """Strings and binary data by key."""

    columns = (
        NAME,
        PrinterColumn(
            "Data",
            "string",
            lambda obj, _: len(obj.get("data") or ()) + len(obj.get("binaryData") or ()),
        ),
        AGE,
    )

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        text, binary = nested_object(obj, "data"), nested_object(obj, "binaryData")
        problems = [*validate_data_keys(text, "data"), *validate_data_keys(binary, "binaryData")]
        problems += [
            invalid_value("data" + f"[{key}]", key, "duplicate of key present in binaryData")
            for key in text
            if key in binary
        ]
        size = sum(len(value.encode()) for value in text.values())
        size += sum(len(value) * 3 // 4 for value in binary.values())
        return problems + validate_data_size(size)

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[FieldError]:
        return validate_immutable_data(new, old, ("data", "binaryData"))


def validate_data_keys(data: JsonObject, path: str) -> list[FieldError]:
    """Keys of ConfigMaps and Secrets must be valid file names."""
    return [
        invalid_value(f"{path}[{key}]", key, error)
        for key in data
        if (error := config_key_error(key))
    ]


def validate_data_size(size: int, path: str = "[]") -> list[FieldError]:
    """The total size of all values is limited to 1 MiB."""
    if size <= _SIZE_LIMIT:
        return []
    message = f"Too long: may not be more than {_SIZE_LIMIT} bytes"
    return [FieldError(path, "FieldValueTooLong", message)]


def validate_immutable_data(
    new: JsonObject, old: JsonObject, fields: tuple[str, ...]
) -> list[FieldError]:
    """`immutable` cannot be unset, and the data of an immutable object cannot change."""
    if not old.get("immutable"):
        return []
    detail = "field is immutable when `immutable` is set"
    changed = [] if new.get("immutable") else ["immutable"]
    changed += [field for field in fields if (new.get(field) or {}) != (old.get(field) or {})]
    return [forbidden_value(field, detail) for field in changed]
