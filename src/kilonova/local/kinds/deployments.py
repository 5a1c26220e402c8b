"""Deployments."""

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, forbidden_field, invalid_value, not_supported
from kilonova.local.kinds.base import Column
from kilonova.local.kinds.columns import AGE, NAME, label_selector, number, ratio, template_columns
from kilonova.local.kinds.podspec import fill_template
from kilonova.local.kinds.podtemplates import workload_problems
from kilonova.local.kinds.rules import (
    amount,
    at_most_all,
    immutable,
    int_or_percent,
    not_negative,
    replica_problems,
)
from kilonova.local.kinds.strategy import Strategy, strategy
from kilonova.local.kinds.walk import at, inside, part

_SELECTOR = Column(
    "Selector",
    "string",
    lambda obj, _: label_selector(at(obj, "spec", "selector")),
    priority=1,
)


@strategy("apps", "Deployment")
class Deployments(Strategy):
    """Pods that are replaced a few at a time."""

    has_generation = True
    columns = (
        NAME,
        ratio("Ready", ("status", "readyReplicas"), ("spec", "replicas")),
        number("Up-to-date", "status", "updatedReplicas", type="string"),
        number("Available", "status", "availableReplicas", type="string"),
        AGE,
        *template_columns("spec", "template"),
        _SELECTOR,
    )

    def fill(self, obj: JsonObject) -> None:
        spec = inside(obj, "spec")
        spec.setdefault("replicas", 1)
        strategy = inside(spec, "strategy")
        if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
            rolling = inside(strategy, "rollingUpdate")
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)
        fill_template(inside(spec, "template"))

    def prepare_status(self, new: JsonObject, old: JsonObject) -> None:
        super().prepare_status(new, old)
        if labels := old["metadata"].get("labels"):
            new["metadata"]["labels"] = labels
        else:
            new["metadata"].pop("labels", None)

    def problems(self, obj: JsonObject) -> list[Problem]:
        spec = part(obj, "spec")
        problems = not_negative(spec, "spec", ["replicas"])
        problems += workload_problems(spec, "deployment", "ReplicaSet")
        problems += _strategy_problems(part(spec, "strategy"))
        problems += not_negative(
            spec, "spec", ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"]
        )
        deadline = spec.get("progressDeadlineSeconds")
        if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
            path = "spec.progressDeadlineSeconds"
            problems.append(invalid_value(path, deadline, "must be greater than minReadySeconds"))
        counts = ("updatedReplicas", "readyReplicas", "availableReplicas")
        return problems + replica_problems(part(obj, "status"), counts)

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[Problem]:
        return immutable(new, old, "spec", "selector")


def _strategy_problems(strategy: JsonObject) -> list[Problem]:
    path = "spec.strategy.rollingUpdate"
    rolling: JsonObject | None = strategy.get("rollingUpdate")
    kind = strategy.get("type", "")
    if kind == "Recreate":
        if rolling is None:
            return []
        return [forbidden_field(path, "may not be specified when strategy `type` is 'Recreate'")]
    if kind != "RollingUpdate":
        shown = {"Type": kind, "RollingUpdate": rolling}
        return [not_supported("spec.strategy", shown, ["Recreate", "RollingUpdate"])]
    if rolling is None:
        return []
    problems: list[Problem] = []
    gone, more = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    problems += int_or_percent(gone, f"{path}.maxUnavailable")
    problems += int_or_percent(more, f"{path}.maxSurge")
    if not amount(gone) and not amount(more):
        detail = "may not be 0 when `maxSurge` is 0"
        problems.append(invalid_value(f"{path}.maxUnavailable", gone, detail))
    return problems + at_most_all(gone, f"{path}.maxUnavailable")
