"""PodTemplates, and the rules that every kind with a pod template shares."""

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, forbidden_field, invalid_value, not_supported, required
from kilonova.local.kinds.base import Column
from kilonova.local.kinds.columns import NAME, labels, template_columns
from kilonova.local.kinds.podrules import template_problems
from kilonova.local.kinds.podspec import fill_template
from kilonova.local.kinds.rules import label_selector_problems, selects
from kilonova.local.kinds.strategy import Strategy, strategy
from kilonova.local.kinds.walk import at, inside, objects, part


@strategy("", "PodTemplate")
class PodTemplates(Strategy):
    """A template on its own."""

    shown_when_deleted = True
    has_generation = True
    columns = (
        NAME,
        *(Column(column.name, "string", column.value) for column in template_columns("template")),
        Column(
            "Pod Labels", "string", lambda obj, _: labels(at(obj, "template", "metadata", "labels"))
        ),
    )

    def fill(self, obj: JsonObject) -> None:
        fill_template(inside(obj, "template"))

    def problems(self, obj: JsonObject) -> list[Problem]:
        return template_problems(part(obj, "template"), "template")


def workload_problems(spec: JsonObject, kind: str, owner: str) -> list[Problem]:
    """Selector and template of a kind that keeps pods running.

    `kind` is the word in Kubernetes' messages for an empty selector, `owner` the name of the
    kind that the template is judged for.
    """
    selector = spec.get("selector")
    problems: list[Problem] = []
    if selector is None:
        problems.append(required("spec.selector"))
    else:
        problems += label_selector_problems(selector, "spec.selector")
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            detail = f"empty selector is invalid for {kind}"
            problems.append(invalid_value("spec.selector", selector, detail))
    if not _is_readable(selector):
        return [*problems, invalid_value("spec.selector", selector, "invalid label selector")]
    template: JsonObject = part(spec, "template")
    problems += selection_problems(selector, template)
    problems += template_problems(template, "spec.template")
    pod: JsonObject = part(template, "spec")
    if pod.get("restartPolicy") != "Always":
        path = "spec.template.spec.restartPolicy"
        problems.append(not_supported(path, pod.get("restartPolicy", ""), ["Always"]))
    if pod.get("activeDeadlineSeconds") is not None:
        detail = f"activeDeadlineSeconds in {owner} is not Supported"
        problems.append(forbidden_field("spec.template.spec.activeDeadlineSeconds", detail))
    return problems


def _is_readable(selector: JsonObject | None) -> bool:
    operators = ("In", "NotIn", "Exists", "DoesNotExist")
    return all(
        expression.get("operator") in operators
        for expression in objects(selector or {}, "matchExpressions")
    )


def selection_problems(selector: JsonObject | None, template: JsonObject) -> list[Problem]:
    """The pods that the template makes must be those that the selector finds."""
    found = part(template, "metadata", "labels")
    if selects(selector, found):
        return []
    detail = "`selector` does not match template `labels`"
    shown = dict(sorted(found.items())) or None
    return [invalid_value("spec.template.metadata.labels", shown, detail)]
