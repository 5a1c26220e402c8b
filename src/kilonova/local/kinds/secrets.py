"""Secrets."""

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping

import msgspec

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, invalid_value, required
from kilonova.local.kinds.columns import AGE, NAME, count, text
from kilonova.local.kinds.configmaps import frozen_problems, key_problems, size_problems
from kilonova.local.kinds.rules import immutable
from kilonova.local.kinds.strategy import Reads, Strategy, strategy
from kilonova.local.kinds.walk import inside, part

_REQUIRED = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
}
_ACCOUNT = "kubernetes.io/service-account.name"


@strategy("", "Secret")
class Secrets(Strategy):
    """Bytes by key. What is written as text under `stringData` joins them."""

    columns = (NAME, text("Type", "type"), count("Data", "data", type="string"), AGE)
    selectable: Mapping[str, Reads] = {"type": lambda obj: obj.get("type") or ""}

    def fill(self, obj: JsonObject) -> None:
        obj.setdefault("type", "Opaque")
        if plain := obj.pop("stringData", None):
            data = inside(obj, "data")
            for key, value in plain.items():
                data[key] = b64encode(value.encode()).decode()

    def problems(self, obj: JsonObject) -> list[Problem]:
        data = part(obj, "data")
        problems = key_problems(data, "data")
        problems += size_problems(sum(len(value or "") * 3 // 4 for value in data.values()), "data")
        kind = obj.get("type", "")
        for key in _REQUIRED.get(kind, ()):
            if key not in data:
                problems.append(required(f"data[{key}]"))
            elif "docker" in kind and not _is_json(data[key]):
                detail = "<secret contents redacted>"
                problems.append(invalid_value(f"data[{key}]", detail, "invalid JSON"))
        if kind == "kubernetes.io/service-account-token" and not (
            part(obj["metadata"], "annotations")
        ).get(_ACCOUNT):
            problems.append(required(f"metadata.annotations[{_ACCOUNT}]"))
        if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & set(data):
            problems += [required("data[username]"), required("data[password]")]
        return problems

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[Problem]:
        return [*immutable(new, old, "type"), *frozen_problems(new, old, ("data",))]


def _is_json(value: str) -> bool:
    try:
        msgspec.json.decode(b64decode(value))
    except (NotBase64, msgspec.DecodeError):
        return False
    return True
