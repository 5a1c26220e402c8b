"""DeviceClasses."""

from collections.abc import Iterator

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError, invalid_value
from kilonova.local.apimachinery.names import qualified_name_error
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects
from kilonova.local.apiserver.kinds.columns import AGE, NAME
from kilonova.local.apiserver.kinds.resource.claim_spec_validation import (
    MAX_CONFIGURATIONS,
    validate_configuration,
)
from kilonova.local.apiserver.kinds.resource.device_selectors import validate_device_selectors
from kilonova.local.apiserver.kinds.resource.name_validation import validate_items
from kilonova.local.apiserver.kinds.strategy import BuiltinStrategy, register_strategy

_QUOTA_PREFIX = "requests."


@register_strategy("resource.k8s.io", "DeviceClass")
class DeviceClassStrategy(BuiltinStrategy):
    """Selectors and configuration that requests refer to by name."""

    returns_deleted_object = True
    has_generation = True
    columns = (NAME, AGE)

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        return list(_validate_spec(nested_object(obj, "spec")))


def _validate_spec(spec: JsonObject) -> Iterator[FieldError]:
    yield from validate_device_selectors(nested_objects(spec, "selectors"), "spec.selectors")
    configurations = nested_objects(spec, "config")
    yield from validate_items(
        configurations, MAX_CONFIGURATIONS, validate_configuration, "spec.config"
    )
    resource = spec.get("extendedResourceName")
    if resource is not None and not _is_extended_resource(resource):
        detail = "must be a valid extended resource name"
        yield invalid_value("spec.extendedResourceName", resource, detail)


def _is_extended_resource(name: str) -> bool:
    native = "/" not in name or "kubernetes.io/" in name
    if native or name.startswith(_QUOTA_PREFIX):
        return False
    return qualified_name_error(_QUOTA_PREFIX + name) is None
