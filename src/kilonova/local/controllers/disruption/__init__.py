"""The statuses of PodDisruptionBudgets.

A **disruption** is a voluntary deletion of a pod. A budget specifies how many pods must stay
**healthy** (ready, and not being deleted); the eviction endpoint consumes the allowed disruptions
of its status, and lists the evicted pods as **disrupted** until their deletion is observed.
"""

from collections.abc import Iterable

from kilonova.kube import Runnable
from kilonova.local.controllers.context import ControllerContext
from kilonova.local.controllers.disruption.controller import DisruptionController
from kilonova.local.controllers.disruption.expected_pods import ExpectedPodCounter
from kilonova.local.controllers.disruption.objects import POD_DISRUPTION_BUDGETS
from kilonova.local.controllers.disruption.stale_conditions import StaleDisruptionController
from kilonova.local.objects.core import PODS

__all__ = ["disruption_controllers"]


def disruption_controllers(context: ControllerContext) -> Iterable[Runnable]:
    """disruption-controller."""
    client, pods = context.client_for("disruption-controller"), context.informer(PODS)
    events = context.recorder("controllermanager")
    scales = ExpectedPodCounter(client)
    budgets = DisruptionController(
        client, context.informer(POD_DISRUPTION_BUDGETS), pods, scales, events, context.clock
    )
    return [budgets.controller, StaleDisruptionController(client, pods, context.clock).controller()]
