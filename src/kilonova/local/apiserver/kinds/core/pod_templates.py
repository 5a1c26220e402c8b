"""PodTemplates, and validation that all kinds with a pod template share."""

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import (
    FieldError,
    forbidden_value,
    invalid_value,
    not_supported_value,
    required_value,
)
from kilonova.local.apimachinery.unstructured import (
    ensure_object,
    nested_object,
    nested_objects,
    nested_value,
)
from kilonova.local.apiserver.kinds.columns import NAME, format_labels, template_columns
from kilonova.local.apiserver.kinds.core.pods.spec_defaults import set_template_defaults
from kilonova.local.apiserver.kinds.core.pods.spec_validation import validate_pod_template
from kilonova.local.apiserver.kinds.kind import PrinterColumn
from kilonova.local.apiserver.kinds.strategy import BuiltinStrategy, register_strategy
from kilonova.local.apiserver.kinds.validation import selector_matches, validate_label_selector


@register_strategy("", "PodTemplate")
class PodTemplateStrategy(BuiltinStrategy):
    """A stored pod template."""

    returns_deleted_object = True
    has_generation = True
    columns = (
        NAME,
        *(
            PrinterColumn(column.name, "string", column.value)
            for column in template_columns("template")
        ),
        PrinterColumn(
            "Pod Labels",
            "string",
            lambda obj, _: format_labels(nested_value(obj, "template", "metadata", "labels")),
        ),
    )

    def set_defaults(self, obj: JsonObject) -> None:
        set_template_defaults(ensure_object(obj, "template"))

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        return validate_pod_template(nested_object(obj, "template"), "template")


def validate_workload(spec: JsonObject, kind: str, owner: str) -> list[FieldError]:
    """Validate selector and template of a workload kind.

    `kind` is the kind's name in the message for an empty selector, `owner` the kind that the
    template's restart policy is validated for.
    """
    selector = spec.get("selector")
    problems: list[FieldError] = []
    if selector is None:
        problems.append(required_value("spec.selector"))
    else:
        problems += validate_label_selector(selector, "spec.selector")
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            detail = f"empty selector is invalid for {kind}"
            problems.append(invalid_value("spec.selector", selector, detail))
    if not _is_valid_selector(selector):
        return [*problems, invalid_value("spec.selector", selector, "invalid label selector")]
    template: JsonObject = nested_object(spec, "template")
    problems += validate_selector_matches_template(selector, template)
    problems += validate_pod_template(template, "spec.template")
    pod: JsonObject = nested_object(template, "spec")
    if pod.get("restartPolicy") != "Always":
        path = "spec.template.spec.restartPolicy"
        problems.append(not_supported_value(path, pod.get("restartPolicy", ""), ["Always"]))
    if pod.get("activeDeadlineSeconds") is not None:
        detail = f"activeDeadlineSeconds in {owner} is not Supported"
        problems.append(forbidden_value("spec.template.spec.activeDeadlineSeconds", detail))
    return problems


def _is_valid_selector(selector: JsonObject | None) -> bool:
    operators = ("In", "NotIn", "Exists", "DoesNotExist")
    return all(
        expression.get("operator") in operators
        for expression in nested_objects(selector or {}, "matchExpressions")
    )


def validate_selector_matches_template(
    selector: JsonObject | None, template: JsonObject
) -> list[FieldError]:
    """The selector must match the labels of the template."""
    found = nested_object(template, "metadata", "labels")
    if selector_matches(selector, found):
        return []
    detail = "`selector` does not match template `labels`"
    formatted = dict(sorted(found.items())) or None
    return [invalid_value("spec.template.metadata.labels", formatted, detail)]
