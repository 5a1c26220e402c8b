"""`kilonova run agent`: assembles the agent of this node."""

import asyncio
import platform
from datetime import UTC, datetime

from kilonova.catalog import load_catalog
from kilonova.component.failure import CommandFailed
from kilonova.component.process.process import Process, bind_port, run_process
from kilonova.gpu.agent.context import AgentContext
from kilonova.gpu.agent.local_agent import LocalAgent
from kilonova.gpu.agent.metrics import AgentMetrics
from kilonova.gpu.agent.resources import NODES
from kilonova.gpu.agent.verification.verifier import PodVerifier
from kilonova.gpu.devices.dcgm import DcgmTelemetry
from kilonova.gpu.devices.errors import GpuError
from kilonova.gpu.devices.selection import open_backend
from kilonova.gpu.kubelet.paths import SocketPathTooLong
from kilonova.gpu.mig.node_lock import EngineIsRunning
from kilonova.gpu.process.exporter import build_exporter
from kilonova.gpu.process.kubelet_parts import build_kubelet_parts
from kilonova.gpu.process.options import NAME, AgentOptions
from kilonova.kube import NotFound
from kilonova.kube.events import EventRecorder
from kilonova.kube.serving.certificate_sources import (
    CertificateSource,
    FileSource,
    FolderSource,
)
from kilonova.kube.serving.certificate_watcher import CertificateWatcher


def run_agent(options: AgentOptions) -> None:
    """Run until stopped; `CommandFailed` if it cannot start or fails."""

    async def assemble(process: Process) -> None:
        await _require_node(process, options.node)
        await _add_runnables(process, options)

    run_process(NAME, options, assemble)


async def _require_node(process: Process, name: str) -> None:
    try:
        await process.client.get(NODES, name)
    except NotFound:
        fix = "give the name of this machine's Node as --node-name"
        raise CommandFailed(f"Node {name} does not exist: {fix}") from None


async def _add_runnables(process: Process, options: AgentOptions) -> None:
    try:
        backend = open_backend(
            options.backend, load_catalog(), options.node, profiles=not options.dcgm
        )
    except (ValueError, GpuError) as error:
        raise CommandFailed(f"--backend {error}") from error
    try:
        dcgm = DcgmTelemetry(options.dcgm, backend) if options.dcgm else None
    except ValueError as error:
        raise CommandFailed(f"--dcgm {error}") from error
    context = AgentContext(
        client=process.client,
        events=EventRecorder(process.client, NAME, instance=options.node, metrics=process.metrics),
        now=_now,
        enqueue=_ignore,
        catalog=load_catalog(),
        settings=options.settings,
        metrics=AgentMetrics(process.metrics.registry),
    )
    local = LocalAgent(
        options.node,
        backend,
        options.state_dir / "mig",
        context,
        telemetry=dcgm,
        runtime_metrics=process.metrics,
        verifier=PodVerifier(context),
        may_reset=options.may_reset,
    )
    try:
        await local.open()
    except EngineIsRunning as error:
        raise CommandFailed(str(error)) from error
    except OSError as error:
        raise CommandFailed(
            f"--state-dir {options.state_dir} cannot be used: {error.strerror or error}"
        ) from error
    except GpuError as error:
        raise CommandFailed(f"the GPUs of {options.node} cannot be read: {error}") from error
    process.manager.add(*local.runnables, _Closing(local))
    try:
        process.manager.add(*await build_kubelet_parts(process, options, local, backend))
    except SocketPathTooLong as error:
        raise CommandFailed(f"--kubelet-dir {options.kubelet_dir} is too long: {error}") from error
    if options.exporter_port is not None:
        process.manager.add(*build_exporter(options, options.exporter_port, local, _now))
    if options.port is not None:
        await _add_grpc_server(process, options, options.port, local)


async def _add_grpc_server(
    process: Process, options: AgentOptions, port: int, local: LocalAgent
) -> None:
    # gRPC takes 20 MB: only a process that serves it loads it.
    from kilonova.gpu.agent.grpc.agent_grpc import node_agent_service
    from kilonova.gpu.agent.grpc.service import AgentServicer
    from kilonova.kube.grpc import GrpcMetrics, GrpcServer, LiveServerCredentials

    credentials = LiveServerCredentials(client_ca=options.client_ca)
    watcher = CertificateWatcher("agent", _certificate_source(options), credentials)
    await watcher.load()
    server = GrpcServer(
        "gpu agent",
        [node_agent_service(AgentServicer(local))],
        f"[::]:{port}",
        credentials=credentials,
        metrics=GrpcMetrics(process.metrics.registry),
    )
    bind_port(server, f"--port {port}")
    process.manager.add(watcher, server)


def _certificate_source(options: AgentOptions) -> CertificateSource:
    if options.certs is not None:
        folder = options.certs
        return FileSource(folder / "tls.crt", folder / "tls.key", folder / "ca.crt")
    names = [options.node, platform.node() or "localhost", "localhost"]
    return FolderSource(options.state_dir / "tls", list(dict.fromkeys(names)))


class _Closing:
    """Gives the node back when the process stops: added after what uses it, it stops before."""

    name = "gpu agent of the node"

    def __init__(self, local: LocalAgent) -> None:
        self._local = local

    async def run(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await self._local.close()


def _ignore(node: str) -> None:
    del node


def _now() -> datetime:
    return datetime.now(UTC)
