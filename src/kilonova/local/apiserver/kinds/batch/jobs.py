"""Jobs."""

from collections.abc import Mapping

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import (
    FieldError,
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
from kilonova.local.apiserver.kinds.batch.job_columns import (
    job_completions,
    job_duration,
    job_status,
)
from kilonova.local.apiserver.kinds.columns import AGE, NAME, selector_column, template_columns
from kilonova.local.apiserver.kinds.core.pod_templates import validate_selector_matches_template
from kilonova.local.apiserver.kinds.core.pods.spec_defaults import set_template_defaults
from kilonova.local.apiserver.kinds.core.pods.spec_validation import validate_pod_template
from kilonova.local.apiserver.kinds.kind import PrinterColumn
from kilonova.local.apiserver.kinds.strategy import BuiltinStrategy, FieldReader, register_strategy
from kilonova.local.apiserver.kinds.validation import (
    IMMUTABLE_FIELD,
    validate_enum,
    validate_immutable,
    validate_not_negative,
)

_NAME_LABELS = ("job-name", "batch.kubernetes.io/job-name")
_UID = "batch.kubernetes.io/controller-uid"
_UID_LABELS = ("controller-uid", _UID)
_UNLIMITED_BACKOFF = 2**31 - 1
_IMMUTABLE_FIELDS = (
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)


@register_strategy("batch", "Job")
class JobStrategy(BuiltinStrategy):
    """Runs pods to completion. Without `manualSelector`, its selector is its own uid."""

    orphans_by_default = True
    has_generation = True
    columns = (
        NAME,
        PrinterColumn("Status", "string", lambda job, _: job_status(job)),
        PrinterColumn("Completions", "string", lambda job, _: job_completions(job)),
        PrinterColumn("Duration", "string", job_duration),
        AGE,
        *template_columns("spec", "template"),
        selector_column("spec", "selector"),
    )
    selectable_fields: Mapping[str, FieldReader] = {
        "status.successful": lambda job: str(nested_value(job, "status", "succeeded") or 0),
    }

    def set_defaults(self, obj: JsonObject) -> None:
        spec = ensure_object(obj, "spec")
        if "parallelism" not in spec:
            spec.setdefault("completions", 1)
        spec.setdefault("parallelism", 1)
        per_index = spec.get("backoffLimitPerIndex") is not None
        spec.setdefault("backoffLimit", _UNLIMITED_BACKOFF if per_index else 6)
        spec.setdefault("completionMode", "NonIndexed")
        spec.setdefault("suspend", False)
        policy = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
        spec.setdefault("podReplacementPolicy", policy)
        spec.setdefault("manualSelector", False)
        set_job_spec_defaults(spec)
        _label_from_template(obj)

    def prepare_create(self, obj: JsonObject) -> None:
        super().prepare_create(obj)
        spec, meta = obj["spec"], obj["metadata"]
        if spec.get("manualSelector"):
            return
        # Labels that were copied from the template are updated with it.
        labels_from_template = meta.get("labels") == nested_value(
            spec, "template", "metadata", "labels"
        )
        labels = ensure_object(ensure_object(spec["template"], "metadata"), "labels")
        for label in _NAME_LABELS:
            labels.setdefault(label, meta.get("name", ""))
        for label in _UID_LABELS:
            labels.setdefault(label, meta.get("uid", ""))
        matched = ensure_object(ensure_object(spec, "selector"), "matchLabels")
        matched.setdefault(_UID, meta.get("uid", ""))
        if labels_from_template:
            meta["labels"] = dict(labels)

    def validate_fields(self, obj: JsonObject) -> list[FieldError]:
        spec = nested_object(obj, "spec")
        problems = validate_job_spec(spec, "spec")
        selector = spec.get("selector")
        if selector is None:
            problems.append(required_value("spec.selector"))
        elif not spec.get("manualSelector") and selector != _generated_labels(obj):
            detail = "`selector` not auto-generated"
            problems.append(invalid_value("spec.selector", selector, detail))
        return problems + validate_selector_matches_template(
            selector, nested_object(spec, "template")
        )

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[FieldError]:
        problems: list[FieldError] = []
        if nested_value(new, "spec", "completionMode") == "Indexed":
            completions = nested_value(new, "spec", "completions")
            if completions not in (
                nested_value(old, "spec", "completions"),
                nested_value(new, "spec", "parallelism"),
            ):
                detail = "can only be modified in tandem with spec.parallelism"
                problems.append(invalid_value("spec.completions", completions, detail))
        else:
            problems += validate_immutable(new, old, "spec", "completions")
        problems += validate_immutable(new, old, "spec", "selector")
        problems += _validate_template_update(new, old)
        for field in _IMMUTABLE_FIELDS:
            problems += validate_immutable(new, old, "spec", field)
        return problems


def set_job_spec_defaults(spec: JsonObject) -> None:
    """Set the defaults of a Job's spec, also of a CronJob's template."""
    for rule in nested_objects(spec, "podFailurePolicy", "rules"):
        for pattern in nested_objects(rule, "onPodConditions"):
            if not pattern.get("status"):
                pattern["status"] = "True"
    set_template_defaults(ensure_object(spec, "template"))


def validate_job_spec(spec: JsonObject, path: str) -> list[FieldError]:
    """Validate the spec of a Job, except its selector."""
    counts = ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit"]
    counts += ["ttlSecondsAfterFinished", "backoffLimitPerIndex", "maxFailedIndexes"]
    problems = validate_not_negative(spec, path, counts)
    mode = spec.get("completionMode") or "NonIndexed"
    problems += validate_enum(mode, f"{path}.completionMode", ["NonIndexed", "Indexed"])
    if mode == "Indexed" and spec.get("completions") is None:
        problems.append(required_value(f"{path}.completions", "when completion mode is Indexed"))
    if mode != "Indexed":
        problems += [
            invalid_value(f"{path}.{field}", spec[field], "requires indexed completion mode")
            for field in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy")
            if spec.get(field) is not None
        ]
    template: JsonObject = nested_object(spec, "template")
    problems += validate_pod_template(template, f"{path}.template")
    policy = nested_value(template, "spec", "restartPolicy")
    field_path = f"{path}.template.spec.restartPolicy"
    if policy == "Always":
        problems.append(required_value(field_path, 'valid values: "OnFailure", "Never"'))
    elif policy not in ("OnFailure", "Never"):
        problems.append(not_supported_value(field_path, policy, ["OnFailure", "Never"]))
    elif spec.get("podFailurePolicy") and policy != "Never":
        detail = 'only "Never" is supported when podFailurePolicy is specified'
        problems.append(invalid_value(field_path, policy, detail))
    return problems


def _generated_labels(job: JsonObject) -> JsonObject:
    return {"matchLabels": {_UID: job["metadata"].get("uid", "")}}


def _label_from_template(obj: JsonObject) -> None:
    labels = nested_value(obj, "spec", "template", "metadata", "labels")
    if labels and not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = dict(labels)


def _validate_template_update(new: JsonObject, old: JsonObject) -> list[FieldError]:
    """Scheduling directives of a suspended Job that has not started yet may be changed."""
    template, before = (
        nested_object(new, "spec", "template"),
        nested_object(old, "spec", "template"),
    )
    if nested_value(old, "spec", "suspend") and not nested_value(old, "status", "startTime"):
        fixed, fixed_before = (
            _without_scheduling_directives(template),
            _without_scheduling_directives(before),
        )
    else:
        fixed, fixed_before = template, before
    if fixed == fixed_before:
        return []
    return [invalid_value("spec.template", template, IMMUTABLE_FIELD)]


def _without_scheduling_directives(template: JsonObject) -> JsonObject:
    spec = {**nested_object(template, "spec")}
    for field in ("nodeSelector", "tolerations", "schedulingGates"):
        spec.pop(field, None)
    affinity = dict(nested_object(spec, "affinity"))
    affinity.pop("nodeAffinity", None)
    containers = [{**each, "resources": None} for each in nested_objects(spec, "containers")]
    return {**spec, "affinity": affinity, "containers": containers}
