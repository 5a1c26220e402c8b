"""Jobs."""

from collections.abc import Mapping

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, invalid_value, not_supported, required
from kilonova.local.kinds.base import Column
from kilonova.local.kinds.columns import AGE, NAME, selector_column, template_columns
from kilonova.local.kinds.jobtable import job_completions, job_duration, job_status
from kilonova.local.kinds.podrules import template_problems
from kilonova.local.kinds.podspec import fill_template
from kilonova.local.kinds.podtemplates import selection_problems
from kilonova.local.kinds.rules import IMMUTABLE, immutable, not_negative, one_of
from kilonova.local.kinds.strategy import Reads, Strategy, strategy
from kilonova.local.kinds.walk import at, inside, objects, part

_NAME_LABELS = ("job-name", "batch.kubernetes.io/job-name")
_UID = "batch.kubernetes.io/controller-uid"
_UID_LABELS = ("controller-uid", _UID)
_UNLIMITED = 2**31 - 1
_FIXED = (
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)


@strategy("batch", "Job")
class Jobs(Strategy):
    """Pods that run to an end. Unless told otherwise, a job finds its pods by its own uid."""

    orphans_by_default = True
    has_generation = True
    columns = (
        NAME,
        Column("Status", "string", lambda job, _: job_status(job)),
        Column("Completions", "string", lambda job, _: job_completions(job)),
        Column("Duration", "string", job_duration),
        AGE,
        *template_columns("spec", "template"),
        selector_column("spec", "selector"),
    )
    selectable: Mapping[str, Reads] = {
        "status.successful": lambda job: str(at(job, "status", "succeeded") or 0),
    }

    def fill(self, obj: JsonObject) -> None:
        spec = inside(obj, "spec")
        if "parallelism" not in spec:
            spec.setdefault("completions", 1)
        spec.setdefault("parallelism", 1)
        per_index = spec.get("backoffLimitPerIndex") is not None
        spec.setdefault("backoffLimit", _UNLIMITED if per_index else 6)
        spec.setdefault("completionMode", "NonIndexed")
        spec.setdefault("suspend", False)
        policy = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
        spec.setdefault("podReplacementPolicy", policy)
        spec.setdefault("manualSelector", False)
        fill_job_spec(spec)
        _label_like_pods(obj)

    def prepare_create(self, obj: JsonObject) -> None:
        super().prepare_create(obj)
        spec, meta = obj["spec"], obj["metadata"]
        if spec.get("manualSelector"):
            return
        # Labels that were taken from the template follow it.
        follows = meta.get("labels") == at(spec, "template", "metadata", "labels")
        labels = inside(inside(spec["template"], "metadata"), "labels")
        for label in _NAME_LABELS:
            labels.setdefault(label, meta.get("name", ""))
        for label in _UID_LABELS:
            labels.setdefault(label, meta.get("uid", ""))
        matched = inside(inside(spec, "selector"), "matchLabels")
        matched.setdefault(_UID, meta.get("uid", ""))
        if follows:
            meta["labels"] = dict(labels)

    def problems(self, obj: JsonObject) -> list[Problem]:
        spec = part(obj, "spec")
        problems = job_spec_problems(spec, "spec")
        selector = spec.get("selector")
        if selector is None:
            problems.append(required("spec.selector"))
        elif not spec.get("manualSelector") and selector != _generated(obj):
            detail = "`selector` not auto-generated"
            problems.append(invalid_value("spec.selector", selector, detail))
        return problems + selection_problems(selector, part(spec, "template"))

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[Problem]:
        problems: list[Problem] = []
        if at(new, "spec", "completionMode") == "Indexed":
            completions = at(new, "spec", "completions")
            if completions not in (at(old, "spec", "completions"), at(new, "spec", "parallelism")):
                detail = "can only be modified in tandem with spec.parallelism"
                problems.append(invalid_value("spec.completions", completions, detail))
        else:
            problems += immutable(new, old, "spec", "completions")
        problems += immutable(new, old, "spec", "selector")
        problems += _template_change(new, old)
        for field in _FIXED:
            problems += immutable(new, old, "spec", field)
        return problems


def fill_job_spec(spec: JsonObject) -> None:
    """Defaults inside a job's spec, also of one that a CronJob keeps."""
    for rule in objects(spec, "podFailurePolicy", "rules"):
        for pattern in objects(rule, "onPodConditions"):
            if not pattern.get("status"):
                pattern["status"] = "True"
    fill_template(inside(spec, "template"))


def job_spec_problems(spec: JsonObject, path: str) -> list[Problem]:
    """The spec of a job, without its selector."""
    counts = ["parallelism", "completions", "activeDeadlineSeconds", "backoffLimit"]
    counts += ["ttlSecondsAfterFinished", "backoffLimitPerIndex", "maxFailedIndexes"]
    problems = not_negative(spec, path, counts)
    mode = spec.get("completionMode") or "NonIndexed"
    problems += one_of(mode, f"{path}.completionMode", ["NonIndexed", "Indexed"])
    if mode == "Indexed" and spec.get("completions") is None:
        problems.append(required(f"{path}.completions", "when completion mode is Indexed"))
    if mode != "Indexed":
        problems += [
            invalid_value(f"{path}.{field}", spec[field], "requires indexed completion mode")
            for field in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy")
            if spec.get(field) is not None
        ]
    template: JsonObject = part(spec, "template")
    problems += template_problems(template, f"{path}.template")
    policy = at(template, "spec", "restartPolicy")
    here = f"{path}.template.spec.restartPolicy"
    if policy == "Always":
        problems.append(required(here, 'valid values: "OnFailure", "Never"'))
    elif policy not in ("OnFailure", "Never"):
        problems.append(not_supported(here, policy, ["OnFailure", "Never"]))
    elif spec.get("podFailurePolicy") and policy != "Never":
        detail = 'only "Never" is supported when podFailurePolicy is specified'
        problems.append(invalid_value(here, policy, detail))
    return problems


def _generated(job: JsonObject) -> JsonObject:
    return {"matchLabels": {_UID: job["metadata"].get("uid", "")}}


def _label_like_pods(obj: JsonObject) -> None:
    labels = at(obj, "spec", "template", "metadata", "labels")
    if labels and not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = dict(labels)


def _template_change(new: JsonObject, old: JsonObject) -> list[Problem]:
    """A suspended job that has not started may still be told where and how to run."""
    template, before = part(new, "spec", "template"), part(old, "spec", "template")
    if at(old, "spec", "suspend") and not at(old, "status", "startTime"):
        fixed, fixed_before = _without_directives(template), _without_directives(before)
    else:
        fixed, fixed_before = template, before
    if fixed == fixed_before:
        return []
    return [invalid_value("spec.template", template, IMMUTABLE)]


def _without_directives(template: JsonObject) -> JsonObject:
    spec = {**part(template, "spec")}
    for field in ("nodeSelector", "tolerations", "schedulingGates"):
        spec.pop(field, None)
    affinity = dict(part(spec, "affinity"))
    affinity.pop("nodeAffinity", None)
    containers = [{**each, "resources": None} for each in objects(spec, "containers")]
    return {**spec, "affinity": affinity, "containers": containers}
