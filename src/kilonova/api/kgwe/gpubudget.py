"""GPUBudget: what GPUs may cost."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from kilonova.api.meta import Condition, Metadata
from kilonova.api.times import Time

Period = Literal["Daily", "Weekly", "Monthly"]
Scope = Literal["Namespace", "Team", "Project", "Cluster"]
EnforcementPolicy = Literal["Alert", "Throttle", "Block"]

Amount = Annotated[str, Meta(max_length=32, pattern=r"^[0-9]+(\.[0-9]+)?$")]
"""An amount of money as a decimal number."""


class GPUBudgetSpec(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The limit, and what it is for."""

    limit: Amount
    """The limit of a period, as a decimal number."""
    currency: Annotated[str, Meta(max_length=3, extra={"default": "USD"})] = "USD"
    """The currency of the limit."""
    period: Annotated[Period, Meta(extra={"default": "Monthly"})] = "Monthly"
    """After which the spending of the budget starts at zero again."""
    scope: Annotated[Scope, Meta(extra={"default": "Namespace"})] = "Namespace"
    """Whose GPUs are counted."""
    team_id: Annotated[str, Meta(max_length=253)] = ""
    """The team, or project, with these scopes."""
    alerts_enabled: Annotated[bool, Meta(extra={"default": True})] = True
    """Whether thresholds are reported."""
    alert_thresholds: Annotated[
        tuple[Annotated[float, Meta(ge=0, le=10)], ...],
        Meta(max_length=16, extra={"default": [0.5, 0.75, 0.9, 1.0]}),
    ] = (0.5, 0.75, 0.9, 1.0)
    """The fractions of the limit that are reported when they are reached."""
    enforcement_policy: Annotated[EnforcementPolicy, Meta(extra={"default": "Alert"})] = "Alert"
    """What happens at the limit."""


class BudgetAlert(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A threshold that was reached."""

    threshold: float
    """The fraction of the limit."""
    triggered_at: Time | None = None
    """When it was reached."""
    acknowledged: bool = False
    """Whether a person has seen it."""


class GPUBudgetStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The observed state of a budget."""

    current_spend: str = ""
    """What was spent in the period, as a decimal number."""
    utilization_percent: float | None = None
    """The same, as a percentage of the limit."""
    period_start: Time | None = None
    """When the period began."""
    period_end: Time | None = None
    """When it ends."""
    alerts: tuple[BudgetAlert, ...] = ()
    """Thresholds that were reached in the period."""
    conditions: tuple[Condition, ...] = ()


class GPUBudget(msgspec.Struct, gc=False):
    """A limit on what the GPUs of a namespace, team or project cost."""

    metadata: Metadata
    spec: GPUBudgetSpec
    status: GPUBudgetStatus = GPUBudgetStatus()
