"""`kilonova run extender`: the scheduler extender as a process of its own.

Every copy answers questions; only the one that holds the Lease binds.
"""

import ssl
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import msgspec

from kilonova.cli.failure import CommandFailed
from kilonova.cli.process import Process, ProcessOptions, bound, run_process
from kilonova.kube import logging
from kilonova.kube.admission import FolderSource, GivenFiles
from kilonova.kube.admission.sources import CertificateSource
from kilonova.kube.webserver import WebServer
from kilonova.scheduler.extender.certificate import LiveCertificate
from kilonova.scheduler.extender.configuration import scheduler_configuration
from kilonova.scheduler.extender.extender import build_extender
from kilonova.scheduler.extender.server import BODY_LIMIT

NAME = "kilonova-extender"
"""Of the Lease, and of who writes."""

_log = logging.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Tls:
    """What is shown to clients, and what they must show."""

    source: CertificateSource
    client_ca: Path | None

    @staticmethod
    def chosen(
        cert: Path | None,
        key: Path | None,
        folder: Path | None,
        names: tuple[str, ...],
        client_ca: Path | None,
        address: str,
    ) -> "Tls | None":
        """By the options; ValueError where they do not go together."""
        if (cert is None) != (key is None):
            raise ValueError("--tls-cert and --tls-key go together")
        if names and folder is None:
            raise ValueError("--tls-name is for certificates made in --tls-dir")
        if cert is not None and key is not None:
            if folder is not None:
                raise ValueError("--tls-dir makes a certificate: leave --tls-cert out")
            return Tls(GivenFiles(cert, key, cert), client_ca)
        if folder is not None:
            return Tls(FolderSource(folder, names or _own_names(address)), client_ca)
        if client_ca is not None:
            raise ValueError("--tls-client-ca needs TLS: give --tls-cert, or --tls-dir")
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderOptions(ProcessOptions):
    """An extender to run."""

    address: str
    port: int
    tls: Tls | None


def run_extender(options: ExtenderOptions) -> None:
    """Run until asked to stop; `CommandFailed` when it cannot, or can no longer."""

    async def assemble(process: Process) -> None:
        metrics = process.metrics
        extender = await build_extender(
            process.client,
            leading=process.leading,
            instruments=metrics,
            registry=metrics.registry,
        )
        certificate = await _certificate(options)
        server = WebServer(
            "extender",
            extender.verbs.endpoints(),
            host=options.address,
            port=options.port,
            tls=certificate and certificate.context,
            body_limit=BODY_LIMIT,
        )
        # What is added last ends first: questions are answered before caches end.
        process.manager.add(*extender.caches)
        if certificate is not None:
            process.manager.add(certificate)
        process.manager.add(bound(server, f"--port {options.port}"))

    run_process(NAME, options, assemble)


def written_configuration(options: ExtenderOptions) -> str:
    """The KubeSchedulerConfiguration that leads to such an extender, as YAML."""
    tls = options.tls
    host = "127.0.0.1" if _is_everywhere(options.address) else options.address
    host = f"[{host}]" if ":" in host else host
    url = f"{'http' if tls is None else 'https'}://{host}:{options.port}"
    trusted: dict[str, str] | None = None
    if tls is not None:
        trusted = {}
        if isinstance(tls.source, FolderSource):
            trusted["caFile"] = str(tls.source.folder.absolute() / "ca.crt")
    kubeconfig = options.kubeconfig
    path = "/etc/kubernetes/scheduler.conf" if kubeconfig is None else str(kubeconfig.absolute())
    return msgspec.yaml.encode(scheduler_configuration(url, path, trusted)).decode().rstrip()


async def _certificate(options: ExtenderOptions) -> LiveCertificate | None:
    tls = options.tls
    if (tls is None or tls.client_ca is None) and not _is_loopback(options.address):
        _log.warning(
            "whoever reaches this address may bind pods: use --tls-client-ca",
            address=options.address,
        )
    if tls is None:
        return None
    try:
        certificate = LiveCertificate(tls.source, tls.client_ca)
        await certificate.load()
    except (OSError, ValueError, ssl.SSLError) as error:
        raise CommandFailed(f"the certificates cannot be used: {error}") from error
    return certificate


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def _own_names(address: str) -> tuple[str, ...]:
    return ("localhost", "127.0.0.1") if _is_everywhere(address) else (address, "localhost")


def _is_everywhere(address: str) -> bool:
    try:
        return ip_address(address).is_unspecified
    except ValueError:
        return not address
