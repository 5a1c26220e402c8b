"""Everything of the control plane that needs gRPC, protobuf and Envoy's messages.

Not imported before there is a service: `server` does, then.
"""

from dataclasses import dataclass

from kilonova.kube.grpc import GrpcMetrics, GrpcServer, LiveServerCredentials, ServerLimits
from kilonova.kube.serving.web_server import WebServer
from kilonova.serving.controlplane.ads.messages import encode_resource
from kilonova.serving.controlplane.ads.service import DiscoveryService
from kilonova.serving.controlplane.answers.grpc_service import InferenceAnswers
from kilonova.serving.controlplane.answers.http_routes import HttpAnswers
from kilonova.serving.controlplane.answers.servers import ServerClients
from kilonova.serving.controlplane.answers.service_answers import ServiceAnswers
from kilonova.serving.controlplane.certificate import ControlPlaneCertificate, TlsContextTarget
from kilonova.serving.controlplane.holds.service import HoldService
from kilonova.serving.controlplane.request_log.service import RequestLogService
from kilonova.serving.controlplane.server_parts import ServerParts
from kilonova.serving.gateway.config import render_gateway
from kilonova.serving.grpc.inference_grpc import grpc_inference_service_service
from kilonova.serving.settings import ServingSettings

__all__ = ["Servers", "build_servers", "encode_resource", "render_gateway"]

_DAY = 86_400.0
_GRACE_SECONDS = 5.0

_LIMITS = ServerLimits(
    # Held requests: `maxHeld` bounds them. All of a gateway may be on one connection.
    max_streams_per_connection=1_000_000,
    max_concurrent_rpcs=1_000_000,
    max_pending_rpcs=1_000_000,
    # `holdTimeout` ends a hold. A connection that is renewed would end the holds on it.
    max_unary_seconds=7 * _DAY,
    max_connection_age=20 * _DAY,
)


@dataclass(frozen=True, slots=True)
class Servers:
    """Both servers, and the connections to servers of models."""

    grpc: GrpcServer
    http: WebServer
    clients: ServerClients


def build_servers(
    parts: ServerParts, settings: ServingSettings, certificate: ControlPlaneCertificate | None
) -> Servers:
    """Build both servers; nothing listens yet."""
    clients = ServerClients(parts.metrics)
    answers = ServiceAnswers(parts.publications, parts.held, clients)
    credentials = tls = None
    if certificate is not None:
        credentials, tls = LiveServerCredentials(), TlsContextTarget()
        certificate.add_target(credentials)
        certificate.add_target(tls)
    host = settings.control_plane_host if settings.on_this_machine else "0.0.0.0"  # noqa: S104
    grpc = GrpcServer(
        "serving-control-plane",
        [
            DiscoveryService(parts.connections, parts.authenticator).build_service(),
            HoldService(parts.held, parts.authenticator).build_service(),
            RequestLogService(parts.recent, parts.authenticator).build_service(),
            grpc_inference_service_service(InferenceAnswers(answers, parts.authenticator)),
        ],
        f"{host}:{settings.control_plane_port}",
        credentials=credentials,
        limits=_LIMITS,
        metrics=GrpcMetrics(parts.registry) if parts.registry is not None else None,
        grace=_GRACE_SECONDS,
    )
    http = WebServer(
        "serving-control-plane-http",
        HttpAnswers(answers, parts.authenticator).build_routes(),
        host=host,
        port=settings.control_plane_http_port,
        tls=tls.context if tls is not None else None,
        grace=int(_GRACE_SECONDS),
    )
    return Servers(grpc, http, clients)
