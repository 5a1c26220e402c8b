"""Namespaces."""

from collections.abc import Mapping

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.names import dns_label_error
from kilonova.local.apimachinery.unstructured import ensure_object, nested_value, string_reader
from kilonova.local.apiserver.kinds.columns import AGE, NAME, text_column
from kilonova.local.apiserver.kinds.strategy import BuiltinStrategy, FieldReader, register_strategy

_FINALIZER = "kubernetes"


@register_strategy("", "Namespace")
class NamespaceStrategy(BuiltinStrategy):
    """A namespace is removed once it is empty and its spec has no finalizers."""

    returns_deleted_object = True
    sets_grace_seconds = False
    columns = (NAME, text_column("Status", "status", "phase"), AGE)
    selectable_fields: Mapping[str, FieldReader] = {
        "status.phase": string_reader("status", "phase"),
        "name": lambda obj: obj["metadata"].get("name", ""),
    }

    def set_defaults(self, obj: JsonObject) -> None:
        if name := obj["metadata"].get("name"):
            ensure_object(obj["metadata"], "labels")["kubernetes.io/metadata.name"] = name
        ensure_object(obj, "status").setdefault("phase", "Active")

    def prepare_create(self, obj: JsonObject) -> None:
        finalizers = ensure_object(obj, "spec").setdefault("finalizers", [])
        if _FINALIZER not in finalizers:
            finalizers.append(_FINALIZER)
        obj["status"] = {"phase": "Active"}
        self.set_defaults(obj)

    def prepare_update(self, new: JsonObject, old: JsonObject) -> None:
        super().prepare_update(new, old)
        ensure_object(new, "spec")["finalizers"] = nested_value(old, "spec", "finalizers") or []

    def prepare_delete(self, obj: JsonObject, now: str) -> None:
        ensure_object(obj, "status")["phase"] = "Terminating"

    def is_removable(self, obj: JsonObject) -> bool:
        return not nested_value(obj, "spec", "finalizers")

    def name_error(self, name: str) -> str | None:
        return dns_label_error(name)
