"""ReplicaSets."""

from collections.abc import Mapping

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError
from kilonova.local.apimachinery.unstructured import ensure_object, nested_object, nested_value
from kilonova.local.apiserver.kinds.columns import (
    AGE,
    NAME,
    number_column,
    selector_column,
    template_columns,
)
from kilonova.local.apiserver.kinds.core.pod_templates import validate_workload
from kilonova.local.apiserver.kinds.core.pods.spec_defaults import set_template_defaults
from kilonova.local.apiserver.kinds.strategy import BuiltinStrategy, FieldReader, register_strategy
from kilonova.local.apiserver.kinds.validation import (
    validate_immutable,
    validate_not_negative,
    validate_replica_counts,
)

REPLICA_COUNTS = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
"""The counts in the status that must not exceed its replicas."""


@register_strategy("apps", "ReplicaSet")
class ReplicaSetStrategy(BuiltinStrategy):
    """Runs a number of identical pods."""

    has_generation = True
    columns = (
        NAME,
        number_column("Desired", "spec", "replicas"),
        number_column("Current", "status", "replicas"),
        number_column("Ready", "status", "readyReplicas"),
        AGE,
        *template_columns("spec", "template"),
        selector_column("spec", "selector"),
    )
    selectable_fields: Mapping[str, FieldReader] = {
        "status.replicas": lambda obj: str(nested_value(obj, "status", "replicas") or 0),
    }

    def set_defaults(self, obj: JsonObject) -> None:
        spec = ensure_object(obj, "spec")
        spec.setdefault("replicas", 1)
        set_template_defaults(ensure_object(spec, "template"))

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        spec = nested_object(obj, "spec")
        problems = validate_not_negative(spec, "spec", ["replicas", "minReadySeconds"])
        problems += validate_workload(spec, "deployment", "ReplicaSet")
        return problems + validate_replica_counts(nested_object(obj, "status"), REPLICA_COUNTS)

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[FieldError]:
        return validate_immutable(new, old, "spec", "selector")
