"""ReplicaSets."""

from collections.abc import Mapping

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem
from kilonova.local.kinds.columns import AGE, NAME, number, selector_column, template_columns
from kilonova.local.kinds.podspec import fill_template
from kilonova.local.kinds.podtemplates import workload_problems
from kilonova.local.kinds.rules import immutable, not_negative
from kilonova.local.kinds.strategy import Reads, Strategy, strategy
from kilonova.local.kinds.walk import at, inside, part


@strategy("apps", "ReplicaSet")
class ReplicaSets(Strategy):
    """A number of equal pods."""

    has_generation = True
    columns = (
        NAME,
        number("Desired", "spec", "replicas"),
        number("Current", "status", "replicas"),
        number("Ready", "status", "readyReplicas"),
        AGE,
        *template_columns("spec", "template"),
        selector_column("spec", "selector"),
    )
    selectable: Mapping[str, Reads] = {
        "status.replicas": lambda obj: str(at(obj, "status", "replicas") or 0),
    }

    def fill(self, obj: JsonObject) -> None:
        spec = inside(obj, "spec")
        spec.setdefault("replicas", 1)
        fill_template(inside(spec, "template"))

    def validate(self, obj: JsonObject) -> list[Problem]:
        spec = part(obj, "spec")
        problems = not_negative(spec, "spec", ["replicas", "minReadySeconds"])
        return problems + workload_problems(spec, "deployment", "ReplicaSet")

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[Problem]:
        return immutable(new, old, "spec", "selector")
