"""What a namespace uses of its quotas, counted from what is there.

Admission counts up as objects are made (`kilonova.local.admission.quota`); this counts anew when
something goes, and now and then.
"""

from collections.abc import Iterable

from kilonova.kube import Part
from kilonova.local.controllers.objects import PODS
from kilonova.local.controllers.quota.controller import QuotaController
from kilonova.local.controllers.quota.departures import Departures
from kilonova.local.controllers.quota.objects import QUOTAS
from kilonova.local.controllers.workshop import Workshop

__all__ = ["quota_parts"]


def quota_parts(workshop: Workshop) -> Iterable[Part]:
    """resourcequota-controller."""
    client, quotas = workshop.account("resourcequota-controller"), workshop.cache(QUOTAS)
    counting = QuotaController(client, quotas, workshop.clock)
    departures = Departures(client, quotas, workshop.cache(PODS), counting.something_went)
    return [departures, counting.controller]
