"""gRPC servers and clients.

- A `GrpcServer` is a runnable with TLS or mutual TLS, health, reflection, limits, metrics and a
  graceful stop. Its `LiveServerCredentials` are kept up to date by a `CertificateWatcher`.
- A `GrpcClient` has one channel for all stubs of a target, with deadlines, retries, keepalive, and
  certificates that are read again when their files change.
- Messages, stubs and servicers are generated from .proto files by `tools/grpc_stubs`.

Importing this package costs 20 MB and some hundred milliseconds: import it where a server or a
client is built, not at the top of a module that every process loads.
"""

from kilonova.kube.grpc.client import ClientSettings, GrpcClient
from kilonova.kube.grpc.limits import Keepalive, ServerLimits
from kilonova.kube.grpc.metrics import GrpcMetrics
from kilonova.kube.grpc.server import GrpcServer, GrpcService
from kilonova.kube.grpc.tls import ClientTls, LiveServerCredentials

__all__ = [
    "ClientSettings",
    "ClientTls",
    "GrpcClient",
    "GrpcMetrics",
    "GrpcServer",
    "GrpcService",
    "Keepalive",
    "LiveServerCredentials",
    "ServerLimits",
]
