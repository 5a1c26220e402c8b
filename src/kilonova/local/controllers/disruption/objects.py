"""PodDisruptionBudgets as their controller sees them."""

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.kube import Resource

DISRUPTION_ALLOWED = "DisruptionAllowed"


class BudgetSpec(msgspec.Struct, frozen=True, rename="camel"):
    """What must stay."""

    selector: JsonObject | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class BudgetCondition(msgspec.Struct, frozen=True, rename="camel"):
    """A condition of a budget."""

    type: str
    status: str
    observed_generation: int = 0
    last_transition_time: str = ""
    reason: str = ""
    message: str = ""


class BudgetStatus(msgspec.Struct, frozen=True, rename="camel"):
    """How much may go."""

    observed_generation: int = 0
    disrupted_pods: dict[str, str] = {}
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    conditions: tuple[BudgetCondition, ...] = ()


class Budget(msgspec.Struct):
    """A PodDisruptionBudget."""

    metadata: Metadata
    spec: BudgetSpec = BudgetSpec()
    status: BudgetStatus = BudgetStatus()


BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, Budget)
