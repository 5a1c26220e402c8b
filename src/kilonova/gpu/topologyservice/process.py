"""`kilonova run topology`: the topology service as a process. It only reads, so every replica
answers and there is no leader."""

from dataclasses import dataclass
from pathlib import Path

from kilonova.component.failure import CommandFailed
from kilonova.component.process.process import (
    Process,
    ProcessOptions,
    bind_port,
    bind_server,
    run_process,
)
from kilonova.gpu.topologyservice.assembly import BuiltTopologyService, build_topology_service
from kilonova.gpu.topologyservice.handlers import error_reply
from kilonova.kube.serving.certificate_sources import CertificateSource, FileSource, FolderSource
from kilonova.kube.serving.certificate_watcher import CertificateWatcher
from kilonova.kube.serving.http_server import create_tls_context
from kilonova.kube.serving.web_server import WebServer

NAME = "kilonova-topology"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyOptions(ProcessOptions):
    """Options of a topology process. `grpc_port` is None where gRPC is not served."""

    address: str
    port: int
    grpc_port: int | None
    certificates: CertificateSource


def certificate_source(
    certs: Path | None, made_in: Path, names: tuple[str, ...]
) -> CertificateSource:
    """The certificate in a folder that others write, else one of our own in `made_in`."""
    if certs is not None:
        return FileSource(certs / "tls.crt", certs / "tls.key", certs / "ca.crt")
    return FolderSource(made_in, names)


def run_topology(options: TopologyOptions) -> None:
    """Run until stopped; `CommandFailed` if it cannot start or fails."""

    async def assemble(process: Process) -> None:
        built = build_topology_service(process.client, runtime_metrics=process.metrics)
        # Runnables stop in reverse order: the servers stop before the informers.
        process.manager.add(*built.informers)
        try:
            context = create_tls_context(None)
            watcher = CertificateWatcher("topology", options.certificates, context)
            await watcher.load()
        except (OSError, ValueError) as error:
            raise CommandFailed(f"certificates cannot be used: {error}") from error
        process.manager.add(watcher)
        server = WebServer(
            "topology",
            built.handlers.routes(),
            host=options.address,
            port=options.port,
            tls=context,
            error_reply=error_reply,
        )
        process.manager.add(bind_server(server, f"--port {options.port}"))
        if options.grpc_port is not None:
            await _add_grpc_server(process, options, options.grpc_port, built)

    run_process(NAME, options, assemble)


async def _add_grpc_server(
    process: Process, options: TopologyOptions, port: int, built: BuiltTopologyService
) -> None:
    # gRPC takes 20 MB: only a process that serves it loads it.
    from kilonova.gpu.topologyservice.grpc.servicer import TopologyServicer
    from kilonova.gpu.topologyservice.grpc.topology_grpc import cluster_topology_service
    from kilonova.kube.grpc import GrpcMetrics, GrpcServer, LiveServerCredentials

    credentials = LiveServerCredentials(client_ca=None)
    watcher = CertificateWatcher("topology gRPC", options.certificates, credentials)
    await watcher.load()
    server = GrpcServer(
        "topology gRPC",
        [cluster_topology_service(TopologyServicer(built.service, built.authorizer))],
        f"{options.address}:{port}",
        credentials=credentials,
        metrics=GrpcMetrics(process.metrics.registry),
    )
    bind_port(server, f"--grpc-port {port}")
    process.manager.add(watcher, server)
