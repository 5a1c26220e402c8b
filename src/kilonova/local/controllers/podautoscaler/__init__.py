"""The horizontal pod autoscaler: scales workloads by metrics, within limits.

- A **sample** is the usage of one pod; a **proposal** is the number of replicas for one metric
  (`replica_calculator.py`). The largest proposal counts.
- The **scale limits** are the bounds, rates and stabilization windows of the autoscaler
  (`scale_limits.py`).
- Conditions, counts and events of a sync are collected by `status_recorder.py`.

`controller.py` reads and writes; the rest except `metrics_client.py` and `metric_replicas.py` is
pure.
"""

from collections.abc import Iterable

from kilonova.kube import Runnable
from kilonova.local.controllers.context import ControllerContext
from kilonova.local.controllers.podautoscaler.controller import AutoscalerController
from kilonova.local.controllers.podautoscaler.objects import AUTOSCALERS
from kilonova.local.objects.core import PODS

__all__ = ["autoscaler_controllers"]


def autoscaler_controllers(context: ControllerContext) -> Iterable[Runnable]:
    """horizontal-pod-autoscaler-controller."""
    client = context.client_for("horizontal-pod-autoscaler")
    autoscalers, pods = context.informer(AUTOSCALERS), context.informer(PODS)
    events = context.recorder("horizontal-pod-autoscaler")
    return [AutoscalerController(client, autoscalers, pods, events, context.clock).controller()]
