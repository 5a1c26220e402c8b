"""resourcequota-controller: recalculates the usage of ResourceQuotas.

Admission adds usage as objects are created (`apiserver.admission.plugins.resource_quota`); this
controller recalculates it when objects are deleted, and periodically.
"""

from collections.abc import Iterable

from kilonova.kube import Runnable
from kilonova.local.controllers.context import ControllerContext
from kilonova.local.controllers.resourcequota.controller import ResourceQuotaController
from kilonova.local.controllers.resourcequota.monitor import QuotaMonitor
from kilonova.local.controllers.resourcequota.objects import RESOURCE_QUOTAS
from kilonova.local.objects.core import PODS

__all__ = ["quota_controllers"]


def quota_controllers(context: ControllerContext) -> Iterable[Runnable]:
    """resourcequota-controller."""
    client, quotas = (
        context.client_for("resourcequota-controller"),
        context.informer(RESOURCE_QUOTAS),
    )
    counting = ResourceQuotaController(client, quotas, context.clock)
    departures = QuotaMonitor(client, quotas, context.informer(PODS), counting.replenish_quota)
    return [departures, counting.controller]
