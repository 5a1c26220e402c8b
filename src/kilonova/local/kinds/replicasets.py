"""ReplicaSets."""

from collections.abc import Mapping

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem
from kilonova.local.kinds.columns import AGE, NAME, number, selector_column, template_columns
from kilonova.local.kinds.podspec import fill_template
from kilonova.local.kinds.podtemplates import workload_problems
from kilonova.local.kinds.rules import immutable, not_negative, replica_problems
from kilonova.local.kinds.strategy import Reads, Strategy, strategy
from kilonova.local.kinds.walk import at, inside, part

REPLICA_COUNTS = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
"""The counts of a status that are parts of its replicas."""


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

    def problems(self, obj: JsonObject) -> list[Problem]:
        spec = part(obj, "spec")
        problems = not_negative(spec, "spec", ["replicas", "minReadySeconds"])
        problems += workload_problems(spec, "deployment", "ReplicaSet")
        return problems + replica_problems(part(obj, "status"), REPLICA_COUNTS)

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[Problem]:
        return immutable(new, old, "spec", "selector")
