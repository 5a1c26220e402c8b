"""RuntimeClasses."""

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, invalid_value
from kilonova.local.kinds.columns import AGE, NAME, text
from kilonova.local.kinds.rules import immutable
from kilonova.local.kinds.strategy import Strategy, strategy
from kilonova.local.names import dns_label


@strategy("node.k8s.io", "RuntimeClass")
class RuntimeClasses(Strategy):
    """What runs a container."""

    create_on_update = True
    unconditional_update = False
    columns = (NAME, text("Handler", "handler"), AGE)

    def problems(self, obj: JsonObject) -> list[Problem]:
        handler = obj.get("handler", "")
        trouble = dns_label(handler)
        return [invalid_value("handler", handler, trouble)] if trouble else []

    def validate_update(self, new: JsonObject, old: JsonObject) -> list[Problem]:
        return immutable(new, old, "handler")
