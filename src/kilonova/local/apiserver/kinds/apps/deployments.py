"""Deployments."""

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import (
    FieldError,
    forbidden_value,
    invalid_value,
    not_supported_value,
)
from kilonova.local.apimachinery.unstructured import ensure_object, nested_object, nested_value
from kilonova.local.apiserver.kinds.columns import (
    AGE,
    NAME,
    format_label_selector,
    number_column,
    ratio_column,
    template_columns,
)
from kilonova.local.apiserver.kinds.core.pod_templates import validate_workload
from kilonova.local.apiserver.kinds.core.pods.spec_defaults import set_template_defaults
from kilonova.local.apiserver.kinds.kind import PrinterColumn
from kilonova.local.apiserver.kinds.strategy import BuiltinStrategy, register_strategy
from kilonova.local.apiserver.kinds.validation import (
    int_or_percent_value,
    validate_immutable,
    validate_int_or_percent,
    validate_max_100_percent,
    validate_not_negative,
    validate_replica_counts,
)

_SELECTOR = PrinterColumn(
    "Selector",
    "string",
    lambda obj, _: format_label_selector(nested_value(obj, "spec", "selector")),
    priority=1,
)


@register_strategy("apps", "Deployment")
class DeploymentStrategy(BuiltinStrategy):
    """Replicas with rolling updates."""

    has_generation = True
    columns = (
        NAME,
        ratio_column("Ready", ("status", "readyReplicas"), ("spec", "replicas")),
        number_column("Up-to-date", "status", "updatedReplicas", type="string"),
        number_column("Available", "status", "availableReplicas", type="string"),
        AGE,
        *template_columns("spec", "template"),
        _SELECTOR,
    )

    def set_defaults(self, obj: JsonObject) -> None:
        spec = ensure_object(obj, "spec")
        spec.setdefault("replicas", 1)
        strategy = ensure_object(spec, "strategy")
        if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
            rolling = ensure_object(strategy, "rollingUpdate")
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)
        set_template_defaults(ensure_object(spec, "template"))

    def prepare_status(self, new: JsonObject, old: JsonObject) -> None:
        super().prepare_status(new, old)
        if labels := old["metadata"].get("labels"):
            new["metadata"]["labels"] = labels
        else:
            new["metadata"].pop("labels", None)

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        spec = nested_object(obj, "spec")
        problems = validate_not_negative(spec, "spec", ["replicas"])
        problems += validate_workload(spec, "deployment", "ReplicaSet")
        problems += _validate_strategy(nested_object(spec, "strategy"))
        problems += validate_not_negative(
            spec, "spec", ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"]
        )
        deadline = spec.get("progressDeadlineSeconds")
        if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
            path = "spec.progressDeadlineSeconds"
            problems.append(invalid_value(path, deadline, "must be greater than minReadySeconds"))
        counts = ("updatedReplicas", "readyReplicas", "availableReplicas")
        return problems + validate_replica_counts(nested_object(obj, "status"), counts)

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[FieldError]:
        return validate_immutable(new, old, "spec", "selector")


def _validate_strategy(strategy: JsonObject) -> list[FieldError]:
    path = "spec.strategy.rollingUpdate"
    rolling: JsonObject | None = strategy.get("rollingUpdate")
    kind = strategy.get("type", "")
    if kind == "Recreate":
        if rolling is None:
            return []
        return [forbidden_value(path, "may not be specified when strategy `type` is 'Recreate'")]
    if kind != "RollingUpdate":
        go_value = {"Type": kind, "RollingUpdate": rolling}
        return [not_supported_value("spec.strategy", go_value, ["Recreate", "RollingUpdate"])]
    if rolling is None:
        return []
    problems: list[FieldError] = []
    max_unavailable, max_surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    problems += validate_int_or_percent(max_unavailable, f"{path}.maxUnavailable")
    problems += validate_int_or_percent(max_surge, f"{path}.maxSurge")
    if not int_or_percent_value(max_unavailable) and not int_or_percent_value(max_surge):
        detail = "may not be 0 when `maxSurge` is 0"
        problems.append(invalid_value(f"{path}.maxUnavailable", max_unavailable, detail))
    return problems + validate_max_100_percent(max_unavailable, f"{path}.maxUnavailable")
