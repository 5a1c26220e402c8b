"""RuntimeClasses."""

from kilonova.api.json import JsonObject
from kilonova.api.quantity import quantity_from_json
from kilonova.local.apimachinery.errors import FieldError, duplicate_value, invalid_value
from kilonova.local.apimachinery.names import dns_label_error, validate_labels
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects
from kilonova.local.apiserver.kinds.columns import AGE, NAME, text_column
from kilonova.local.apiserver.kinds.core.pods.spec_validation import validate_tolerations
from kilonova.local.apiserver.kinds.strategy import BuiltinStrategy, register_strategy
from kilonova.local.apiserver.kinds.validation import validate_immutable

_ZERO = quantity_from_json(0)


@register_strategy("node.k8s.io", "RuntimeClass")
class RuntimeClassStrategy(BuiltinStrategy):
    """A container runtime configuration."""

    allows_create_on_update = True
    allows_unconditional_update = False
    columns = (NAME, text_column("Handler", "handler"), AGE)

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        handler = obj.get("handler", "")
        error = dns_label_error(handler)
        problems = [invalid_value("handler", handler, error)] if error else []
        for name, amount in nested_object(obj, "overhead", "podFixed").items():
            if quantity_from_json(amount) < _ZERO:
                detail = "must be greater than or equal to 0"
                problems.append(invalid_value(f"overhead.limits[{name}]", str(amount), detail))
        scheduling = nested_object(obj, "scheduling")
        problems += validate_labels(scheduling.get("nodeSelector"), "scheduling.nodeSelector")
        tolerations = nested_objects(scheduling, "tolerations")
        problems += validate_tolerations(tolerations, "scheduling.tolerations")
        return problems + _validate_unique_tolerations(tolerations)

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[FieldError]:
        return validate_immutable(new, old, "handler")


def _validate_unique_tolerations(tolerations: list[JsonObject]) -> list[FieldError]:
    return [
        duplicate_value(f"scheduling.tolerations[{index}]", _go_format(each))
        for index, each in enumerate(tolerations)
        if each in tolerations[:index]
    ]


def _go_format(toleration: JsonObject) -> JsonObject:
    """A toleration as Go prints Kubernetes' internal type."""
    return {
        "Key": toleration.get("key", ""),
        "Operator": toleration.get("operator", ""),
        "Value": toleration.get("value", ""),
        "Effect": toleration.get("effect", ""),
        "TolerationSeconds": toleration.get("tolerationSeconds"),
    }
