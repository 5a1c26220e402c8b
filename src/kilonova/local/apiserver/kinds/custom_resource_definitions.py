"""CustomResourceDefinitions as objects; `customresources` serves what they define."""

from __future__ import annotations

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError
from kilonova.local.apimachinery.unstructured import (
    ensure_object,
    nested_object,
    nested_objects,
    nested_value,
)
from kilonova.local.apiserver.kinds.columns import CREATED_AT, NAME
from kilonova.local.apiserver.kinds.strategy import BuiltinStrategy, register_strategy


@register_strategy("apiextensions.k8s.io", "CustomResourceDefinition")
class CustomResourceDefinitionStrategy(BuiltinStrategy):
    """Names are accepted and the status is set by the CRD handler, as an admission plugin.

    The package `customresources` is imported when the first definition is written: it imports kinds
    itself, and a server without definitions does not need it.
    """

    has_generation = True
    allows_unconditional_update = False
    columns = (NAME, CREATED_AT)

    def set_defaults(self, obj: JsonObject) -> None:
        spec = ensure_object(obj, "spec")
        names = ensure_object(spec, "names")
        kind: str = names.get("kind", "")
        if not names.get("singular") and kind:
            names["singular"] = kind.lower()
        if not names.get("listKind") and kind:
            names["listKind"] = f"{kind}List"
        spec.setdefault("conversion", {"strategy": "None"})
        service: JsonObject | None = nested_value(
            spec, "conversion", "webhook", "clientConfig", "service"
        )
        if service:
            service.setdefault("port", 443)

    def prepare_create(self, obj: JsonObject) -> None:
        self._complete_status(obj)

    def prepare_update(self, new: JsonObject, old: JsonObject) -> None:
        self._complete_status(new)

    def validate(self, obj: JsonObject) -> list[FieldError]:
        from kilonova.local.apiserver.customresources.definition_validation import (
            validate_approval,
            validate_definition,
            validate_definition_name,
        )

        if obj["metadata"].get("resourceVersion"):
            return validate_definition(obj)
        return [*validate_definition_name(obj), *validate_definition(obj), *validate_approval(obj)]

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[FieldError]:
        from kilonova.local.apiserver.customresources.definition_validation import (
            validate_definition_update,
        )

        return validate_definition_update(new, old)

    def prepare_delete(self, obj: JsonObject, now: str) -> None:
        from kilonova.local.objects.crd_names import mark_terminating

        mark_terminating(obj, now)

    def warnings(self, obj: JsonObject) -> list[str]:
        from kilonova.local.apiserver.customresources.version_validation import (
            find_unrecognized_formats,
        )

        return [
            f'unrecognized format "{format}"'
            for version in nested_objects(obj, "spec", "versions")
            for format in find_unrecognized_formats(
                nested_object(version, "schema", "openAPIV3Schema")
            )
        ]

    def _complete_status(self, obj: JsonObject) -> None:
        """The status of a definition before the CRD handler has accepted its names."""
        from kilonova.local.objects.crd_names import stored_versions

        status = dict(nested_object(obj, "status"))
        status.setdefault("conditions", None)
        status.setdefault("acceptedNames", {"plural": "", "kind": ""})
        status["storedVersions"] = stored_versions(obj)
        obj["status"] = status
