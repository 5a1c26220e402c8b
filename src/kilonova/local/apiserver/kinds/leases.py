"""Leases: leader election and node heartbeats."""

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError, invalid_value
from kilonova.local.apimachinery.unstructured import nested_object
from kilonova.local.apiserver.kinds.columns import AGE, NAME, text_column
from kilonova.local.apiserver.kinds.strategy import BuiltinStrategy, register_strategy
from kilonova.local.apiserver.kinds.validation import validate_not_negative


@register_strategy("coordination.k8s.io", "Lease")
class LeaseStrategy(BuiltinStrategy):
    """Updates always require a resourceVersion."""

    allows_create_on_update = True
    allows_unconditional_update = False
    columns = (NAME, text_column("Holder", "spec", "holderIdentity"), AGE)

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        spec = nested_object(obj, "spec")
        problems = validate_not_negative(spec, "spec", ["leaseTransitions"])
        seconds = spec.get("leaseDurationSeconds")
        if seconds is not None and seconds <= 0:
            path = "spec.leaseDurationSeconds"
            problems.append(invalid_value(path, seconds, "must be greater than 0"))
        return problems
