"""Runs controllers, autoscaler and control plane until they are stopped."""

from dataclasses import dataclass
from pathlib import Path

from kilonova.component.failure import CommandFailed
from kilonova.component.process.preflight import require_installed, require_namespace
from kilonova.component.process.process import Process, ProcessOptions, run_process
from kilonova.kube import KubeError
from kilonova.kube.serving.certificate_sources import (
    CertificateSource,
    FolderSource,
    SecretSource,
)
from kilonova.serving import resources
from kilonova.serving.assembly import build_serving
from kilonova.serving.settings import ServingSettings

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


def run_serving(options: ServingOptions) -> None:
    """Run it; `CommandFailed` if it cannot start or fails."""

    async def assemble(process: Process) -> None:
        wanted = [resources.INFERENCE_SERVICES, resources.POD_CLIQUE_SETS]
        await require_installed(process.client, wanted)
        if options.tls and options.certs is None:
            await require_namespace(
                process.client, options.process.namespace, "the Lease and the certificates"
            )
        serving = build_serving(
            process.leader_client,
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


def _find_certificates(process: Process, options: ServingOptions) -> CertificateSource | None:
    if not options.tls:
        return None
    names = [options.settings.control_plane_host]
    if options.certs is not None:
        return FolderSource(options.certs, names)
    # Every replica serves them, not only the leader.
    return SecretSource(process.client, LEASE, options.process.namespace, names)
