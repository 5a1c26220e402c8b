"""Horizontal autoscaling: as many replicas as metrics ask for, within bounds, at a pace.

- A **sample** is what one pod used; a **proposal** is the number of replicas that one metric asks
  for (`proposals.py`). The largest of all proposals counts.
- The **pace** brings it within the bounds, rates and windows of the autoscaler (`pace.py`).
- What a round comes to is **told** in conditions, numbers and events (`telling.py`).

`controller.py` reads and writes; the rest but `metrics.py` and `measure.py` is pure.
"""

from collections.abc import Iterable

from kilonova.kube import Part
from kilonova.local.controllers.autoscaling.controller import AutoscalerController
from kilonova.local.controllers.autoscaling.objects import AUTOSCALERS
from kilonova.local.controllers.objects import PODS
from kilonova.local.controllers.workshop import Workshop

__all__ = ["autoscaler_parts"]


def autoscaler_parts(workshop: Workshop) -> Iterable[Part]:
    """horizontal-pod-autoscaler-controller."""
    client = workshop.account("horizontal-pod-autoscaler")
    autoscalers, pods = workshop.cache(AUTOSCALERS), workshop.cache(PODS)
    events = workshop.recorder("horizontal-pod-autoscaler")
    return [AutoscalerController(client, autoscalers, pods, events, workshop.clock).controller()]
