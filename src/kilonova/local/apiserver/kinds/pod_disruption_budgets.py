"""PodDisruptionBudgets."""

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError, invalid_value
from kilonova.local.apimachinery.unstructured import nested_object
from kilonova.local.apiserver.kinds.columns import AGE, NAME, number_column, text_column
from kilonova.local.apiserver.kinds.strategy import BuiltinStrategy, register_strategy
from kilonova.local.apiserver.kinds.validation import (
    validate_int_or_percent,
    validate_label_selector,
    validate_max_100_percent,
)

_FIELDS = ("minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy")


@register_strategy("policy", "PodDisruptionBudget")
class PodDisruptionBudgetStrategy(BuiltinStrategy):
    """The number of pods that must stay available during voluntary disruptions."""

    has_generation = True
    allows_unconditional_update = False
    columns = (
        NAME,
        text_column("Min Available", "spec", "minAvailable", missing="N/A"),
        text_column("Max Unavailable", "spec", "maxUnavailable", missing="N/A"),
        number_column("Allowed Disruptions", "status", "disruptionsAllowed"),
        AGE,
    )

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        spec = nested_object(obj, "spec")
        problems: list[FieldError] = []
        if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
            detail = "minAvailable and maxUnavailable cannot be both set"
            go_value = {field[:1].upper() + field[1:]: spec.get(field) for field in _FIELDS}
            problems.append(invalid_value("spec", go_value, detail))
        for field in ("minAvailable", "maxUnavailable"):
            if spec.get(field) is not None:
                problems += validate_int_or_percent(spec[field], f"spec.{field}")
                problems += validate_max_100_percent(spec[field], f"spec.{field}")
        return problems + validate_label_selector(spec.get("selector"), "spec.selector")
