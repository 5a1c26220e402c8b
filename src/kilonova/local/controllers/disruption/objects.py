"""PodDisruptionBudgets as their controller sees them."""

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.kube import Resource

DISRUPTION_ALLOWED = "DisruptionAllowed"


class PodDisruptionBudgetSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The spec of a budget."""

    selector: JsonObject | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class PodDisruptionBudgetCondition(msgspec.Struct, frozen=True, rename="camel"):
    """A condition of a budget."""

    type: str
    status: str
    observed_generation: int = 0
    last_transition_time: str = ""
    reason: str = ""
    message: str = ""


class PodDisruptionBudgetStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The status of a budget."""

    observed_generation: int = 0
    disrupted_pods: dict[str, str] = {}
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    conditions: tuple[PodDisruptionBudgetCondition, ...] = ()


class PodDisruptionBudget(msgspec.Struct):
    """A PodDisruptionBudget."""

    metadata: Metadata
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


POD_DISRUPTION_BUDGETS = Resource(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, PodDisruptionBudget
)
