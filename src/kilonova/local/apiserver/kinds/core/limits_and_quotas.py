"""LimitRanges and ResourceQuotas."""

from datetime import datetime

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError
from kilonova.local.apimachinery.unstructured import ensure_object, nested_object, nested_objects
from kilonova.local.apiserver.kinds.columns import AGE, NAME
from kilonova.local.apiserver.kinds.core.quota_validation import (
    validate_quota_spec,
    validate_quota_update,
)
from kilonova.local.apiserver.kinds.kind import PrinterColumn
from kilonova.local.apiserver.kinds.strategy import BuiltinStrategy, register_strategy


@register_strategy("", "LimitRange")
class LimitRangeStrategy(BuiltinStrategy):
    """Limits and defaults of the resources of containers, pods and claims."""

    allows_create_on_update = True

    def set_defaults(self, obj: JsonObject) -> None:
        for item in nested_objects(obj, "spec", "limits"):
            if item.get("type") != "Container":
                continue
            limits, requests = ensure_object(item, "default"), ensure_object(item, "defaultRequest")
            for name, value in nested_object(item, "max").items():
                limits.setdefault(name, value)
            for name, value in {**nested_object(item, "min"), **limits}.items():
                requests.setdefault(name, value)
            for field in ("default", "defaultRequest"):
                if not item[field]:
                    del item[field]


def _format_usage(obj: JsonObject, limits: bool) -> str:
    used: JsonObject = nested_object(obj, "status", "used")
    return ", ".join(
        f"{name}: {used.get(name, '0')}/{hard}"
        for name, hard in sorted((nested_object(obj, "status", "hard")).items())
        if name.startswith("limits.") is limits
    )


def _requests(obj: JsonObject, _: datetime) -> str:
    return _format_usage(obj, limits=False)


def _limits(obj: JsonObject, _: datetime) -> str:
    return _format_usage(obj, limits=True)


@register_strategy("", "ResourceQuota")
class ResourceQuotaStrategy(BuiltinStrategy):
    """The limit of the total usage of a namespace."""

    returns_deleted_object = True
    columns = (
        NAME,
        PrinterColumn("Request", "string", _requests),
        PrinterColumn("Limit", "string", _limits),
        AGE,
    )

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        return list(validate_quota_spec(nested_object(obj, "spec")))

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[FieldError]:
        return list(validate_quota_update(new, old))
