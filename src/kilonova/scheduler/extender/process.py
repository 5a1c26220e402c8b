"""`kilonova run extender`: the scheduler extender as a process of its own.

Every replica filters and scores; only the leader binds.
"""

import ssl
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import msgspec

from kilonova.component.failure import CommandFailed
from kilonova.component.process.process import Process, ProcessOptions, bind_server, run_process
from kilonova.kube.admission import FileSource, FolderSource
from kilonova.kube.observability import structured_logging
from kilonova.kube.serving.certificate_sources import CertificateSource
from kilonova.kube.serving.certificate_watcher import CertificateWatcher
from kilonova.kube.serving.http_server import create_tls_context
from kilonova.kube.serving.web_server import WebServer
from kilonova.scheduler.extender.assembly import build_extender
from kilonova.scheduler.extender.configuration import scheduler_configuration
from kilonova.scheduler.extender.handlers import BODY_LIMIT, error_reply

NAME = "kilonova-extender"
"""The name of the Lease, and the field manager."""

_log = structured_logging.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """The serving certificate, and the CA of client certificates if they are required."""

    source: CertificateSource
    client_ca: Path | None

    @staticmethod
    def from_flags(
        cert: Path | None,
        key: Path | None,
        directory: Path | None,
        names: tuple[str, ...],
        client_ca: Path | None,
        address: str,
    ) -> "TlsOptions | None":
        """The TLS options; ValueError if flags conflict."""
        if (cert is None) != (key is None):
            raise ValueError("--tls-cert and --tls-key require each other")
        if names and directory is None:
            raise ValueError("--tls-name requires --tls-dir")
        if cert is not None and key is not None:
            if directory is not None:
                raise ValueError("--tls-dir and --tls-cert exclude each other")
            return TlsOptions(FileSource(cert, key, cert), client_ca)
        if directory is not None:
            return TlsOptions(FolderSource(directory, names or _default_names(address)), client_ca)
        if client_ca is not None:
            raise ValueError("--tls-client-ca requires --tls-cert or --tls-dir")
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderOptions(ProcessOptions):
    """Options of an extender process."""

    address: str
    port: int
    tls: TlsOptions | None


def run_extender(options: ExtenderOptions) -> None:
    """Run until stopped; `CommandFailed` if it cannot start or fails."""

    async def assemble(process: Process) -> None:
        metrics = process.metrics
        extender = await build_extender(
            process.client,
            leader_client=process.leader_client,
            runtime_metrics=metrics,
            registry=metrics.registry,
        )
        _warn_if_unauthenticated(options)
        # Runnables stop in reverse order: the server stops before the informers.
        process.manager.add(*extender.informers)
        tls = None
        if options.tls is not None:
            tls, certificate = await _load_certificate(options.tls)
            process.manager.add(certificate)
        server = WebServer(
            "extender",
            extender.handlers.routes(),
            host=options.address,
            port=options.port,
            tls=tls,
            body_limit=BODY_LIMIT,
            error_reply=error_reply,
        )
        process.manager.add(bind_server(server, f"--port {options.port}"))

    run_process(NAME, options, assemble)


def format_configuration(options: ExtenderOptions) -> str:
    """A KubeSchedulerConfiguration that uses this extender, as YAML."""
    tls = options.tls
    host = "127.0.0.1" if _is_unspecified(options.address) else options.address
    host = f"[{host}]" if ":" in host else host
    url = f"{'http' if tls is None else 'https'}://{host}:{options.port}"
    tls_config: dict[str, str] | None = None
    if tls is not None:
        tls_config = {}
        if isinstance(tls.source, FolderSource):
            tls_config["caFile"] = str(tls.source.folder.absolute() / "ca.crt")
    kubeconfig = options.kubeconfig
    path = "/etc/kubernetes/scheduler.conf" if kubeconfig is None else str(kubeconfig.absolute())
    return msgspec.yaml.encode(scheduler_configuration(url, path, tls_config)).decode().rstrip()


def _warn_if_unauthenticated(options: ExtenderOptions) -> None:
    tls = options.tls
    if (tls is None or tls.client_ca is None) and not _is_loopback(options.address):
        _log.warning(
            "extender accepts unauthenticated bind requests on a non-loopback address: "
            "use --tls-client-ca",
            address=options.address,
        )


async def _load_certificate(tls: TlsOptions) -> tuple[ssl.SSLContext, CertificateWatcher]:
    try:
        context = create_tls_context(tls.client_ca)
        certificate = CertificateWatcher("extender", tls.source, context)
        await certificate.load()
    except (OSError, ValueError) as error:
        raise CommandFailed(f"certificates cannot be used: {error}") from error
    return context, certificate


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def _default_names(address: str) -> tuple[str, ...]:
    return ("localhost", "127.0.0.1") if _is_unspecified(address) else (address, "localhost")


def _is_unspecified(address: str) -> bool:
    try:
        return ip_address(address).is_unspecified
    except ValueError:
        return not address
