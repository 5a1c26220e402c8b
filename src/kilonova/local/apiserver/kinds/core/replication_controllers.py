"""ReplicationControllers, the predecessors of ReplicaSets."""

from collections.abc import Mapping

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError, invalid_value, required_value
from kilonova.local.apimachinery.unstructured import ensure_object, nested_object, nested_value
from kilonova.local.apiserver.kinds.apps.replica_sets import REPLICA_COUNTS
from kilonova.local.apiserver.kinds.columns import (
    AGE,
    NAME,
    format_labels,
    number_column,
    template_columns,
    wide_column,
)
from kilonova.local.apiserver.kinds.core.pods.spec_defaults import set_template_defaults
from kilonova.local.apiserver.kinds.core.pods.spec_validation import validate_pod_template
from kilonova.local.apiserver.kinds.strategy import BuiltinStrategy, FieldReader, register_strategy
from kilonova.local.apiserver.kinds.validation import (
    selector_matches,
    validate_not_negative,
    validate_replica_counts,
)


@register_strategy("", "ReplicationController")
class ReplicationControllerStrategy(BuiltinStrategy):
    """Runs a number of identical pods; its selector is a plain map of labels."""

    orphans_by_default = True
    has_generation = True
    columns = (
        NAME,
        number_column("Desired", "spec", "replicas"),
        number_column("Current", "status", "replicas"),
        number_column("Ready", "status", "readyReplicas"),
        AGE,
        *template_columns("spec", "template"),
        wide_column("Selector", lambda obj: format_labels(nested_value(obj, "spec", "selector"))),
    )
    selectable_fields: Mapping[str, FieldReader] = {
        "status.replicas": lambda obj: str(nested_value(obj, "status", "replicas") or 0),
    }

    def set_defaults(self, obj: JsonObject) -> None:
        spec = ensure_object(obj, "spec")
        spec.setdefault("replicas", 1)
        if template := spec.get("template"):
            set_template_defaults(template)
            if found := nested_value(template, "metadata", "labels"):
                spec.setdefault("selector", dict(found))
                obj["metadata"].setdefault("labels", dict(found))

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        spec = nested_object(obj, "spec")
        problems = validate_not_negative(spec, "spec", ["replicas", "minReadySeconds"])
        selector, template = spec.get("selector"), spec.get("template")
        if not selector:
            problems.append(required_value("spec.selector"))
        if not template:
            return [*problems, required_value("spec.template")]
        found = nested_value(template, "metadata", "labels")
        if selector and not selector_matches({"matchLabels": selector}, found):
            detail = "`selector` does not match template `labels`"
            problems.append(invalid_value("spec.template.metadata.labels", found, detail))
        problems += validate_pod_template(template, "spec.template")
        return problems + validate_replica_counts(nested_object(obj, "status"), REPLICA_COUNTS)
