"""What the services of the control plane work with; importing it loads no gRPC."""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from kilonova.serving.controlplane.ads.connections import GatewayConnections
from kilonova.serving.controlplane.authentication import Authenticator
from kilonova.serving.controlplane.holds.requests import HeldRequestQueue
from kilonova.serving.controlplane.metrics import ControlPlaneMetrics
from kilonova.serving.controlplane.publication import Publications
from kilonova.serving.controlplane.request_log.recent import RecentRequests


@dataclass(frozen=True, slots=True)
class ServerParts:
    """The parts that all services share."""

    publications: Publications
    connections: GatewayConnections
    held: HeldRequestQueue
    recent: RecentRequests
    authenticator: Authenticator
    metrics: ControlPlaneMetrics
    registry: CollectorRegistry | None = None
    """For the metrics of gRPC itself."""
