"""Secrets."""

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError, invalid_value, required_value
from kilonova.local.apimachinery.unstructured import ensure_object, nested_object
from kilonova.local.apiserver.kinds.columns import AGE, NAME, count_column, text_column
from kilonova.local.apiserver.kinds.core.config_maps import (
    validate_data_keys,
    validate_data_size,
    validate_immutable_data,
)
from kilonova.local.apiserver.kinds.strategy import BuiltinStrategy, FieldReader, register_strategy
from kilonova.local.apiserver.kinds.validation import validate_immutable

_REQUIRED_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
}
_ACCOUNT = "kubernetes.io/service-account.name"


@register_strategy("", "Secret")
class SecretStrategy(BuiltinStrategy):
    """Binary data by key. `stringData` is write-only and merged into it."""

    columns = (NAME, text_column("Type", "type"), count_column("Data", "data", type="string"), AGE)
    selectable_fields: Mapping[str, FieldReader] = {"type": lambda obj: obj.get("type") or ""}

    def set_defaults(self, obj: JsonObject) -> None:
        obj.setdefault("type", "Opaque")
        if strings := obj.pop("stringData", None):
            data = ensure_object(obj, "data")
            for key, value in strings.items():
                data[key] = b64encode(value.encode()).decode()

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        data = nested_object(obj, "data")
        problems = validate_data_keys(data, "data")
        problems += validate_data_size(
            sum(len(value or "") * 3 // 4 for value in data.values()), "data"
        )
        kind = obj.get("type", "")
        for key in _REQUIRED_KEYS.get(kind, ()):
            if key not in data:
                problems.append(required_value(f"data[{key}]"))
            elif "docker" in kind and not _is_json(data[key]):
                detail = "<secret contents redacted>"
                problems.append(invalid_value(f"data[{key}]", detail, "invalid JSON"))
        if kind == "kubernetes.io/service-account-token" and not (
            nested_object(obj["metadata"], "annotations")
        ).get(_ACCOUNT):
            problems.append(required_value(f"metadata.annotations[{_ACCOUNT}]"))
        if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & set(data):
            problems += [required_value("data[username]"), required_value("data[password]")]
        return problems

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[FieldError]:
        return [
            *validate_immutable(new, old, "type"),
            *validate_immutable_data(new, old, ("data",)),
        ]


def _is_json(value: str) -> bool:
    try:
        msgspec.json.decode(b64decode(value))
    except (NotBase64, msgspec.DecodeError):
        return False
    return True
