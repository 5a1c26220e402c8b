"""ReplicationControllers, the ancestors of ReplicaSets."""

from collections.abc import Mapping

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, invalid_value, required
from kilonova.local.kinds.columns import AGE, NAME, labels, number, template_columns, wide
from kilonova.local.kinds.podrules import template_problems
from kilonova.local.kinds.podspec import fill_template
from kilonova.local.kinds.replicasets import REPLICA_COUNTS
from kilonova.local.kinds.rules import not_negative, replica_problems, selects
from kilonova.local.kinds.strategy import Reads, Strategy, strategy
from kilonova.local.kinds.walk import at, inside, part


@strategy("", "ReplicationController")
class ReplicationControllers(Strategy):
    """A number of equal pods, found by a plain set of labels."""

    orphans_by_default = True
    has_generation = True
    columns = (
        NAME,
        number("Desired", "spec", "replicas"),
        number("Current", "status", "replicas"),
        number("Ready", "status", "readyReplicas"),
        AGE,
        *template_columns("spec", "template"),
        wide("Selector", lambda obj: labels(at(obj, "spec", "selector"))),
    )
    selectable: Mapping[str, Reads] = {
        "status.replicas": lambda obj: str(at(obj, "status", "replicas") or 0),
    }

    def fill(self, obj: JsonObject) -> None:
        spec = inside(obj, "spec")
        spec.setdefault("replicas", 1)
        if template := spec.get("template"):
            fill_template(template)
            if found := at(template, "metadata", "labels"):
                spec.setdefault("selector", dict(found))
                obj["metadata"].setdefault("labels", dict(found))

    def problems(self, obj: JsonObject) -> list[Problem]:
        spec = part(obj, "spec")
        problems = not_negative(spec, "spec", ["replicas", "minReadySeconds"])
        selector, template = spec.get("selector"), spec.get("template")
        if not selector:
            problems.append(required("spec.selector"))
        if not template:
            return [*problems, required("spec.template")]
        found = at(template, "metadata", "labels")
        if selector and not selects({"matchLabels": selector}, found):
            detail = "`selector` does not match template `labels`"
            problems.append(invalid_value("spec.template.metadata.labels", found, detail))
        problems += template_problems(template, "spec.template")
        return problems + replica_problems(part(obj, "status"), REPLICA_COUNTS)
