"""How many pods may go at a time: the statuses of PodDisruptionBudgets.

A **disruption** is the end of a pod that somebody asked for. A budget says how many pods must stay
**healthy** (ready, and not on their way out); the eviction endpoint spends what its status allows,
and lists the pods spent on as **disrupted** until they are seen to go.
"""

from collections.abc import Iterable

from kilonova.kube import Part
from kilonova.local.controllers.disruption.controller import BudgetController
from kilonova.local.controllers.disruption.objects import BUDGETS
from kilonova.local.controllers.disruption.scales import Scales
from kilonova.local.controllers.disruption.stale import StaleTargets
from kilonova.local.controllers.objects import PODS
from kilonova.local.controllers.workshop import Workshop

__all__ = ["disruption_parts"]


def disruption_parts(workshop: Workshop) -> Iterable[Part]:
    """disruption-controller."""
    client, pods = workshop.account("disruption-controller"), workshop.cache(PODS)
    events = workshop.recorder("controllermanager")
    scales = Scales(client)
    budgets = BudgetController(
        client, workshop.cache(BUDGETS), pods, scales, events, workshop.clock
    )
    return [budgets.controller, StaleTargets(client, pods, workshop.clock).controller()]
