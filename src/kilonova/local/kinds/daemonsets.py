"""DaemonSets."""

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, invalid_value, not_supported, required
from kilonova.local.kinds.base import Column
from kilonova.local.kinds.columns import (
    AGE,
    NAME,
    labels,
    number,
    selector_column,
    template_columns,
)
from kilonova.local.kinds.podspec import fill_template
from kilonova.local.kinds.podtemplates import workload_problems
from kilonova.local.kinds.rules import (
    amount,
    at_most_all,
    immutable,
    int_or_percent,
    not_negative,
)
from kilonova.local.kinds.strategy import Strategy, strategy
from kilonova.local.kinds.walk import at, inside, part

_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


@strategy("apps", "DaemonSet")
class DaemonSets(Strategy):
    """A pod on every node."""

    has_generation = True
    columns = (
        NAME,
        number("Desired", "status", "desiredNumberScheduled"),
        number("Current", "status", "currentNumberScheduled"),
        number("Ready", "status", "numberReady"),
        number("Up-to-date", "status", "updatedNumberScheduled"),
        number("Available", "status", "numberAvailable"),
        Column(
            "Node Selector",
            "string",
            lambda obj, _: labels(at(obj, "spec", "template", "spec", "nodeSelector")),
        ),
        AGE,
        *template_columns("spec", "template"),
        selector_column("spec", "selector"),
    )

    def fill(self, obj: JsonObject) -> None:
        spec = inside(obj, "spec")
        update = inside(spec, "updateStrategy")
        if update.setdefault("type", "RollingUpdate") == "RollingUpdate":
            rolling = inside(update, "rollingUpdate")
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("maxSurge", 0)
        spec.setdefault("revisionHistoryLimit", 10)
        fill_template(inside(spec, "template"))
        inside(obj["metadata"], "annotations").setdefault(_TEMPLATE_GENERATION, "0")

    def prepare_create(self, obj: JsonObject) -> None:
        super().prepare_create(obj)
        inside(obj["metadata"], "annotations")[_TEMPLATE_GENERATION] = "1"

    def prepare_update(self, new: JsonObject, old: JsonObject) -> None:
        super().prepare_update(new, old)
        count = int(part(old["metadata"], "annotations").get(_TEMPLATE_GENERATION, "0"))
        if new["spec"].get("template") != old["spec"].get("template"):
            count += 1
        inside(new["metadata"], "annotations")[_TEMPLATE_GENERATION] = str(count)

    def problems(self, obj: JsonObject) -> list[Problem]:
        spec = part(obj, "spec")
        problems = workload_problems(spec, "daemonset", "DaemonSet")
        problems += not_negative(spec, "spec", ["minReadySeconds"])
        problems += _update_problems(part(spec, "updateStrategy"))
        return problems + not_negative(spec, "spec", ["revisionHistoryLimit"])

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[Problem]:
        return immutable(new, old, "spec", "selector")


def _update_problems(update: JsonObject) -> list[Problem]:
    path = "spec.updateStrategy.rollingUpdate"
    kind, rolling = update.get("type"), update.get("rollingUpdate")
    if kind not in ("RollingUpdate", "OnDelete"):
        shown = {"Type": kind, "RollingUpdate": rolling}
        return [not_supported("spec.updateStrategy", shown, ["RollingUpdate", "OnDelete"])]
    if kind == "OnDelete" or rolling is None:
        return []
    problems: list[Problem] = []
    gone, more = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    for rule in (int_or_percent, at_most_all):
        problems += rule(gone, f"{path}.maxUnavailable")
        problems += rule(more, f"{path}.maxSurge")
    if amount(gone) and amount(more):
        detail = "may not be set when maxUnavailable is non-zero"
        problems.append(invalid_value(f"{path}.maxSurge", more, detail))
    elif not amount(gone) and not amount(more):
        problems.append(required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return problems
