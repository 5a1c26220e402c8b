"""Runs controllers, autoscaler and control plane until they are stopped."""

from dataclasses import dataclass
from pathlib import Path

from kilonova.component.failure import CommandFailed
from kilonova.component.process.preflight import require_installed, require_namespace
from kilonova.component.process.process import Process, ProcessOptions, run_process
from kilonova.kube import Client, KubeError
from kilonova.kube.serving.certificate_sources import (
    CertificateSource,
    FolderSource,
    SecretSource,
)
from kilonova.serving import resources
from kilonova.serving.assembly import build_serving
from kilonova.serving.settings import ServingSettings
from kilonova.serving.sources import ConfigMapTransport

LEASE = "kilonova-serving"
"""Of its Lease, Service, certificates and ServiceAccount."""


@dataclass(frozen=True, slots=True)
class ServingOptions:
    """The options of the process."""

    process: ProcessOptions
    settings: ServingSettings
    tls: bool
    certs: Path | None
    """A folder for certificates, instead of a Secret."""
    service: str = ""
    """In the namespaced mode, the only service."""

    @property
    def name(self) -> str:
        """The name of its Lease and certificates."""
        return build_name(self.service)


def build_name(service: str) -> str:
    """The name of the Lease and the certificates: each service of the namespaced mode has its
    own."""
    return f"{service}-kilonova" if service else LEASE


def run_serving(options: ServingOptions) -> None:
    """Run it; `CommandFailed` if it cannot start or fails."""

    async def assemble(process: Process) -> None:
        if not options.settings.namespace:
            await _check_cluster(process, options)
        serving = build_serving(
            _choose_client(process, options),
            options.settings,
            registry=process.metrics.registry,
            runtime_metrics=process.metrics,
            certificates=_find_certificates(process, options),
        )
        try:
            await serving.prepare()
        except (OSError, ValueError, KubeError) as error:
            raise CommandFailed(f"the certificates cannot be used: {error}") from error
        process.manager.add(*serving.runnables)
        process.manager.add_leader_runnables(*serving.leader_runnables)

    run_process(LEASE, options.process, assemble)


async def _check_cluster(process: Process, options: ServingOptions) -> None:
    wanted = [resources.INFERENCE_SERVICES, resources.POD_CLIQUE_SETS]
    await require_installed(process.client, wanted)
    if options.tls and options.certs is None:
        await require_namespace(
            process.client, options.process.namespace, "the Lease and the certificates"
        )


def _choose_client(process: Process, options: ServingOptions) -> Client:
    """In the namespaced mode one that sees ConfigMaps as services."""
    settings = options.settings
    if not settings.namespace:
        return process.leader_client
    return process.leader_client.wrap_transport(
        lambda transport: ConfigMapTransport(
            transport, settings.namespace, options.service, settings.prometheus_url
        )
    )


def _find_certificates(process: Process, options: ServingOptions) -> CertificateSource | None:
    if not options.tls:
        return None
    names = [options.settings.control_plane_host]
    if options.certs is not None:
        return FolderSource(options.certs, names)
    # Every replica serves them, not only the leader.
    return SecretSource(process.client, options.name, options.process.namespace, names)
