"""ControllerRevisions: the revisions of StatefulSet and DaemonSet templates."""

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError, required_value
from kilonova.local.apimachinery.unstructured import nested_objects
from kilonova.local.apiserver.kinds.columns import AGE, NAME, NONE, number_column
from kilonova.local.apiserver.kinds.kind import PrinterColumn
from kilonova.local.apiserver.kinds.strategy import BuiltinStrategy, register_strategy
from kilonova.local.apiserver.kinds.validation import validate_immutable, validate_not_negative


def _controller_name(obj: JsonObject) -> str:
    for owner in nested_objects(obj["metadata"], "ownerReferences"):
        if owner.get("controller"):
            group, _, _ = owner["apiVersion"].rpartition("/")
            kind = owner["kind"] + (f".{group}" if group else "")
            return f"{kind.lower()}/{owner['name']}"
    return NONE


@register_strategy("apps", "ControllerRevision")
class ControllerRevisionStrategy(BuiltinStrategy):
    """An immutable snapshot of a template."""

    columns = (
        NAME,
        PrinterColumn("Controller", "string", lambda obj, _: _controller_name(obj)),
        number_column("Revision", "revision", type="string"),
        AGE,
    )

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        problems = (
            [] if obj.get("data") is not None else [required_value("data", "data is mandatory")]
        )
        return problems + [
            FieldError(problem.path.lstrip("."), problem.reason, problem.message)
            for problem in validate_not_negative(obj, "", ["revision"])
        ]

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[FieldError]:
        return validate_immutable(new, old, "data")
