"""LimitRanges and ResourceQuotas."""

from datetime import datetime

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem
from kilonova.local.kinds.base import Column
from kilonova.local.kinds.columns import AGE, NAME
from kilonova.local.kinds.quotarules import quota_change_problems, quota_problems
from kilonova.local.kinds.strategy import Strategy, strategy
from kilonova.local.kinds.walk import inside, objects, part


@strategy("", "LimitRange")
class LimitRanges(Strategy):
    """Bounds and defaults for what containers ask for."""

    create_on_update = True

    def fill(self, obj: JsonObject) -> None:
        for item in objects(obj, "spec", "limits"):
            if item.get("type") != "Container":
                continue
            limits, requests = inside(item, "default"), inside(item, "defaultRequest")
            for name, value in part(item, "max").items():
                limits.setdefault(name, value)
            for name, value in {**part(item, "min"), **limits}.items():
                requests.setdefault(name, value)
            for field in ("default", "defaultRequest"):
                if not item[field]:
                    del item[field]


def _used(obj: JsonObject, limits: bool) -> str:
    used: JsonObject = part(obj, "status", "used")
    return ", ".join(
        f"{name}: {used.get(name, '0')}/{hard}"
        for name, hard in sorted((part(obj, "status", "hard")).items())
        if name.startswith("limits.") is limits
    )


def _requests(obj: JsonObject, _: datetime) -> str:
    return _used(obj, limits=False)


def _limits(obj: JsonObject, _: datetime) -> str:
    return _used(obj, limits=True)


@strategy("", "ResourceQuota")
class ResourceQuotas(Strategy):
    """What a namespace may use in all."""

    shown_when_deleted = True
    columns = (
        NAME,
        Column("Request", "string", _requests),
        Column("Limit", "string", _limits),
        AGE,
    )

    def problems(self, obj: JsonObject) -> list[Problem]:
        return list(quota_problems(part(obj, "spec")))

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[Problem]:
        return list(quota_change_problems(new, old))
