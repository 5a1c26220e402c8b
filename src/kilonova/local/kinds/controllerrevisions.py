"""ControllerRevisions: the past templates of StatefulSets and DaemonSets."""

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, required
from kilonova.local.kinds.base import Column
from kilonova.local.kinds.columns import AGE, NAME, NONE, number
from kilonova.local.kinds.rules import immutable, not_negative
from kilonova.local.kinds.strategy import Strategy, strategy
from kilonova.local.kinds.walk import objects


def _controller(obj: JsonObject) -> str:
    for owner in objects(obj["metadata"], "ownerReferences"):
        if owner.get("controller"):
            group, _, _ = owner["apiVersion"].rpartition("/")
            kind = owner["kind"] + (f".{group}" if group else "")
            return f"{kind.lower()}/{owner['name']}"
    return NONE


@strategy("apps", "ControllerRevision")
class ControllerRevisions(Strategy):
    """A template, frozen under a number."""

    columns = (
        NAME,
        Column("Controller", "string", lambda obj, _: _controller(obj)),
        number("Revision", "revision", type="string"),
        AGE,
    )

    def problems(self, obj: JsonObject) -> list[Problem]:
        problems = [] if obj.get("data") is not None else [required("data", "data is mandatory")]
        return problems + [
            Problem(problem.path.lstrip("."), problem.reason, problem.message)
            for problem in not_negative(obj, "", ["revision"])
        ]

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[Problem]:
        return immutable(new, old, "data")
