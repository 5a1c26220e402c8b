"""DaemonSets."""

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import (
    FieldError,
    invalid_value,
    not_supported_value,
    required_value,
)
from kilonova.local.apimachinery.unstructured import ensure_object, nested_object, nested_value
from kilonova.local.apiserver.kinds.columns import (
    AGE,
    NAME,
    format_labels,
    number_column,
    selector_column,
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
)

_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


@register_strategy("apps", "DaemonSet")
class DaemonSetStrategy(BuiltinStrategy):
    """Runs a pod on every matching node."""

    has_generation = True
    columns = (
        NAME,
        number_column("Desired", "status", "desiredNumberScheduled"),
        number_column("Current", "status", "currentNumberScheduled"),
        number_column("Ready", "status", "numberReady"),
        number_column("Up-to-date", "status", "updatedNumberScheduled"),
        number_column("Available", "status", "numberAvailable"),
        PrinterColumn(
            "Node Selector",
            "string",
            lambda obj, _: format_labels(
                nested_value(obj, "spec", "template", "spec", "nodeSelector")
            ),
        ),
        AGE,
        *template_columns("spec", "template"),
        selector_column("spec", "selector"),
    )

    def set_defaults(self, obj: JsonObject) -> None:
        spec = ensure_object(obj, "spec")
        update = ensure_object(spec, "updateStrategy")
        if update.setdefault("type", "RollingUpdate") == "RollingUpdate":
            rolling = ensure_object(update, "rollingUpdate")
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("maxSurge", 0)
        spec.setdefault("revisionHistoryLimit", 10)
        set_template_defaults(ensure_object(spec, "template"))
        ensure_object(obj["metadata"], "annotations").setdefault(_TEMPLATE_GENERATION, "0")

    def prepare_create(self, obj: JsonObject) -> None:
        super().prepare_create(obj)
        ensure_object(obj["metadata"], "annotations")[_TEMPLATE_GENERATION] = "1"

    def prepare_update(self, new: JsonObject, old: JsonObject) -> None:
        super().prepare_update(new, old)
        count = int(nested_object(old["metadata"], "annotations").get(_TEMPLATE_GENERATION, "0"))
        if new["spec"].get("template") != old["spec"].get("template"):
            count += 1
        ensure_object(new["metadata"], "annotations")[_TEMPLATE_GENERATION] = str(count)

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        spec = nested_object(obj, "spec")
        problems = validate_workload(spec, "daemonset", "DaemonSet")
        problems += validate_not_negative(spec, "spec", ["minReadySeconds"])
        problems += _validate_update_strategy(nested_object(spec, "updateStrategy"))
        return problems + validate_not_negative(spec, "spec", ["revisionHistoryLimit"])

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[FieldError]:
        return validate_immutable(new, old, "spec", "selector")


def _validate_update_strategy(update: JsonObject) -> list[FieldError]:
    path = "spec.updateStrategy.rollingUpdate"
    kind, rolling = update.get("type"), update.get("rollingUpdate")
    if kind not in ("RollingUpdate", "OnDelete"):
        go_value = {"Type": kind, "RollingUpdate": rolling}
        return [not_supported_value("spec.updateStrategy", go_value, ["RollingUpdate", "OnDelete"])]
    if kind == "OnDelete" or rolling is None:
        return []
    problems: list[FieldError] = []
    max_unavailable, max_surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    for rule in (validate_int_or_percent, validate_max_100_percent):
        problems += rule(max_unavailable, f"{path}.maxUnavailable")
        problems += rule(max_surge, f"{path}.maxSurge")
    if int_or_percent_value(max_unavailable) and int_or_percent_value(max_surge):
        detail = "may not be set when maxUnavailable is non-zero"
        problems.append(invalid_value(f"{path}.maxSurge", max_surge, detail))
    elif not int_or_percent_value(max_unavailable) and not int_or_percent_value(max_surge):
        problems.append(required_value(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return problems
