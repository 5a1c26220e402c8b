"""PodDisruptionBudgets."""

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, invalid_value
from kilonova.local.kinds.columns import AGE, NAME, number, text
from kilonova.local.kinds.rules import at_most_all, int_or_percent, label_selector_problems
from kilonova.local.kinds.strategy import Strategy, strategy
from kilonova.local.kinds.walk import part

_FIELDS = ("minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy")


@strategy("policy", "PodDisruptionBudget")
class PodDisruptionBudgets(Strategy):
    """How many pods must stay when somebody drains."""

    has_generation = True
    unconditional_update = False
    columns = (
        NAME,
        text("Min Available", "spec", "minAvailable", missing="N/A"),
        text("Max Unavailable", "spec", "maxUnavailable", missing="N/A"),
        number("Allowed Disruptions", "status", "disruptionsAllowed"),
        AGE,
    )

    def problems(self, obj: JsonObject) -> list[Problem]:
        spec = part(obj, "spec")
        problems: list[Problem] = []
        if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
            detail = "minAvailable and maxUnavailable cannot be both set"
            shown = {field[:1].upper() + field[1:]: spec.get(field) for field in _FIELDS}
            problems.append(invalid_value("spec", shown, detail))
        for field in ("minAvailable", "maxUnavailable"):
            if spec.get(field) is not None:
                problems += int_or_percent(spec[field], f"spec.{field}")
                problems += at_most_all(spec[field], f"spec.{field}")
        return problems + label_selector_problems(spec.get("selector"), "spec.selector")
