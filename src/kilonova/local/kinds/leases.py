"""Leases: who leads, and which node is alive."""

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, invalid_value
from kilonova.local.kinds.columns import AGE, NAME, text
from kilonova.local.kinds.rules import not_negative
from kilonova.local.kinds.strategy import Strategy, strategy
from kilonova.local.kinds.walk import part


@strategy("coordination.k8s.io", "Lease")
class Leases(Strategy):
    """Written often; never without having seen the last version."""

    create_on_update = True
    unconditional_update = False
    columns = (NAME, text("Holder", "spec", "holderIdentity"), AGE)

    def problems(self, obj: JsonObject) -> list[Problem]:
        spec = part(obj, "spec")
        problems = not_negative(spec, "spec", ["leaseTransitions"])
        seconds = spec.get("leaseDurationSeconds")
        if seconds is not None and seconds <= 0:
            path = "spec.leaseDurationSeconds"
            problems.append(invalid_value(path, seconds, "must be greater than 0"))
        return problems
