"""ResourceClaims and ResourceClaimTemplates."""

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError, forbidden_value
from kilonova.local.apimachinery.names import validate_annotations, validate_labels
from kilonova.local.apimachinery.unstructured import (
    ensure_object,
    nested_object,
    nested_objects,
    nested_value,
)
from kilonova.local.apiserver.kinds.columns import AGE, NAME
from kilonova.local.apiserver.kinds.kind import PrinterColumn
from kilonova.local.apiserver.kinds.resource.claim_spec_validation import (
    set_request_defaults,
    set_toleration_defaults,
    validate_claim_spec,
)
from kilonova.local.apiserver.kinds.resource.claim_status_validation import (
    allocated_devices,
    device_id,
    validate_claim_status_update,
)
from kilonova.local.apiserver.kinds.strategy import BuiltinStrategy, register_strategy
from kilonova.local.apiserver.kinds.validation import validate_immutable

_GROUP = "resource.k8s.io"
_TEMPLATE_METADATA_FIELDS = ("labels", "annotations")


def _format_state(obj: JsonObject) -> str:
    deleted = bool(obj["metadata"].get("deletionTimestamp"))
    states = ["deleted"] if deleted else []
    if not nested_value(obj, "status", "allocation"):
        states += [] if deleted else ["pending"]
    else:
        states.append("allocated")
        if nested_value(obj, "status", "reservedFor"):
            states.append("reserved")
    return ",".join(states)


@register_strategy(_GROUP, "ResourceClaim")
class ResourceClaimStrategy(BuiltinStrategy):
    """A request for devices. The spec is immutable."""

    returns_deleted_object = True
    status_preserves_metadata = True
    columns = (NAME, PrinterColumn("State", "string", lambda obj, _: _format_state(obj)), AGE)

    def set_defaults(self, obj: JsonObject) -> None:
        set_request_defaults(ensure_object(obj, "spec"))
        for result in nested_objects(obj, "status", "allocation", "devices", "results"):
            set_toleration_defaults(result)

    def validate_create(self, obj: JsonObject) -> list[FieldError]:
        return list(validate_claim_spec(nested_object(obj, "spec"), "spec"))

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[FieldError]:
        return [*validate_immutable(new, old, "spec"), *validate_claim_status_update(new, old)]

    def prepare_status(self, new: JsonObject, old: JsonObject) -> None:
        super().prepare_status(new, old)
        _remove_device_statuses(new, allocated_devices(old) - allocated_devices(new))


@register_strategy(_GROUP, "ResourceClaimTemplate")
class ResourceClaimTemplateStrategy(BuiltinStrategy):
    """The template of a claim that is created for each pod."""

    returns_deleted_object = True
    columns = (NAME, AGE)

    def set_defaults(self, obj: JsonObject) -> None:
        set_request_defaults(ensure_object(ensure_object(obj, "spec"), "spec"))

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        metadata, path = nested_object(obj, "spec", "metadata"), "spec.metadata"
        return [
            *validate_annotations(metadata.get("annotations"), f"{path}.annotations"),
            *validate_labels(metadata.get("labels"), f"{path}.labels"),
            *(
                forbidden_value(f"{path}.{name}", "cannot be set")
                for name, value in metadata.items()
                if value and name not in _TEMPLATE_METADATA_FIELDS
            ),
            *validate_claim_spec(nested_object(obj, "spec", "spec"), "spec.spec"),
        ]

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[FieldError]:
        return validate_immutable(new, old, "spec")


def _remove_device_statuses(claim: JsonObject, removed: set[tuple[str, str, str, str]]) -> None:
    """Remove the statuses of devices that are no longer allocated."""
    status = ensure_object(claim, "status")
    remaining = [
        each for each in nested_objects(status, "devices") if device_id(each) not in removed
    ]
    status.pop("devices", None)
    if remaining:
        status["devices"] = remaining
