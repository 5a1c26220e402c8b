"""`metrics.k8s.io/v1beta1`: what nodes and pods use, as metrics-server serves it.

Nothing is kept: a request asks the nodes that it is about, and what they tell is written down in
metrics-server's words. A pod that its node does not tell of has no metrics (yet).
"""

from kilonova.local.metricsapi.kinds import metrics_kinds
from kilonova.local.metricsapi.serving import Metrics

__all__ = ["Metrics", "metrics_kinds"]
