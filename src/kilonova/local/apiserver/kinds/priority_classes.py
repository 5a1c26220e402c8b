"""PriorityClasses."""

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError, forbidden_value
from kilonova.local.apiserver.kinds.columns import (
    AGE,
    NAME,
    flag_column,
    number_column,
    text_column,
)
from kilonova.local.apiserver.kinds.strategy import BuiltinStrategy, register_strategy
from kilonova.local.apiserver.kinds.validation import validate_enum, validate_immutable

_MAX_USER_PRIORITY = 1_000_000_000


@register_strategy("scheduling.k8s.io", "PriorityClass")
class PriorityClassStrategy(BuiltinStrategy):
    """A named pod priority."""

    has_generation = True
    columns = (
        NAME,
        number_column("Value", "value"),
        flag_column("Global-Default", "globalDefault"),
        AGE,
        text_column("PreemptionPolicy", "preemptionPolicy"),
    )

    def set_defaults(self, obj: JsonObject) -> None:
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        problems: list[FieldError] = []
        if (
            not obj["metadata"].get("name", "").startswith("system-")
            and obj["value"] > _MAX_USER_PRIORITY
        ):
            detail = f"maximum allowed value of a user defined priority is {_MAX_USER_PRIORITY}"
            problems.append(forbidden_value("value", detail))
        allowed = ["PreemptLowerPriority", "Never"]
        return problems + validate_enum(obj.get("preemptionPolicy"), "preemptionPolicy", allowed)

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[FieldError]:
        problems: list[FieldError] = []
        if new.get("value") != old.get("value"):
            problems.append(forbidden_value("value", "may not be changed in an update."))
        return problems + validate_immutable(new, old, "preemptionPolicy")
