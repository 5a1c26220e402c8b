"""PriorityClasses."""

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, forbidden_field
from kilonova.local.kinds.columns import AGE, NAME, flag, number, text
from kilonova.local.kinds.rules import immutable, one_of
from kilonova.local.kinds.strategy import Strategy, strategy

_HIGHEST = 1_000_000_000


@strategy("scheduling.k8s.io", "PriorityClass")
class PriorityClasses(Strategy):
    """A name for how much a pod matters."""

    has_generation = True
    columns = (
        NAME,
        number("Value", "value"),
        flag("Global-Default", "globalDefault"),
        AGE,
        text("PreemptionPolicy", "preemptionPolicy"),
    )

    def fill(self, obj: JsonObject) -> None:
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")

    def problems(self, obj: JsonObject) -> list[Problem]:
        problems: list[Problem] = []
        if not obj["metadata"].get("name", "").startswith("system-") and obj["value"] > _HIGHEST:
            detail = f"maximum allowed value of a user defined priority is {_HIGHEST}"
            problems.append(forbidden_field("value", detail))
        allowed = ["PreemptLowerPriority", "Never"]
        return problems + one_of(obj.get("preemptionPolicy"), "preemptionPolicy", allowed)

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[Problem]:
        problems: list[Problem] = []
        if new.get("value") != old.get("value"):
            problems.append(forbidden_field("value", "may not be changed in an update."))
        return problems + immutable(new, old, "preemptionPolicy")
