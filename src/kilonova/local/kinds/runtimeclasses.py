"""RuntimeClasses."""

from kilonova.api.json import JsonObject
from kilonova.api.quantity import from_json
from kilonova.local.errors import Problem, duplicate, invalid_value
from kilonova.local.kinds.columns import AGE, NAME, text
from kilonova.local.kinds.podrules import toleration_problems
from kilonova.local.kinds.rules import immutable
from kilonova.local.kinds.strategy import Strategy, strategy
from kilonova.local.kinds.walk import objects, part
from kilonova.local.names import dns_label, label_problems

_NOTHING = from_json(0)


@strategy("node.k8s.io", "RuntimeClass")
class RuntimeClasses(Strategy):
    """What runs a container."""

    create_on_update = True
    unconditional_update = False
    columns = (NAME, text("Handler", "handler"), AGE)

    def problems(self, obj: JsonObject) -> list[Problem]:
        handler = obj.get("handler", "")
        trouble = dns_label(handler)
        problems = [invalid_value("handler", handler, trouble)] if trouble else []
        for name, amount in part(obj, "overhead", "podFixed").items():
            if from_json(amount) < _NOTHING:
                detail = "must be greater than or equal to 0"
                problems.append(invalid_value(f"overhead.limits[{name}]", str(amount), detail))
        scheduling = part(obj, "scheduling")
        problems += label_problems(scheduling.get("nodeSelector"), "scheduling.nodeSelector")
        tolerations = objects(scheduling, "tolerations")
        problems += toleration_problems(tolerations, "scheduling.tolerations")
        return problems + _repeated(tolerations)

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[Problem]:
        return immutable(new, old, "handler")


def _repeated(tolerations: list[JsonObject]) -> list[Problem]:
    return [
        duplicate(f"scheduling.tolerations[{index}]", _as_go(each))
        for index, each in enumerate(tolerations)
        if each in tolerations[:index]
    ]


def _as_go(toleration: JsonObject) -> JsonObject:
    """A toleration as Kubernetes prints its internal type."""
    return {
        "Key": toleration.get("key", ""),
        "Operator": toleration.get("operator", ""),
        "Value": toleration.get("value", ""),
        "Effect": toleration.get("effect", ""),
        "TolerationSeconds": toleration.get("tolerationSeconds"),
    }
