"""`metrics.k8s.io/v1beta1`: resource usage of nodes and pods, as metrics-server serves it.

Nothing is stored: a request queries the kubelets of the nodes concerned, and their usage is
converted to metrics-server's format. A pod that its node does not report has no metrics (yet).
"""

from kilonova.local.apiserver.metrics_api.handler import MetricsHandler
from kilonova.local.apiserver.metrics_api.kinds import metrics_kinds

__all__ = ["MetricsHandler", "metrics_kinds"]
