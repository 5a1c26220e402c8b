"""`kilonova run operator`: the operator as a process of its own."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import urlsplit

from kilonova.component.failure import NO_COMPUTE_DOMAINS, CommandFailed
from kilonova.component.process.preflight import (
    authenticated_user,
    missing_kinds,
    require_installed,
    require_namespace,
)
from kilonova.component.process.process import Process, bind_port, configure_logging, run_process
from kilonova.component.process.run import assemble_parts, load_part_webhooks
from kilonova.kube import Client, NotFound
from kilonova.kube.admission import (
    AdmissionServer,
    FileSource,
    FolderSource,
    Handler,
    SecretSource,
    service_names,
)
from kilonova.kube.admission.registration import WebhookSet
from kilonova.kube.observability import structured_logging
from kilonova.kube.serving.certificate_sources import CertificateSource
from kilonova.workloads.admission import (
    ServiceEndpoint,
    UrlEndpoint,
    build_handlers,
    install_webhooks,
)
from kilonova.workloads.metrics import WorkloadMetrics
from kilonova.workloads.operator import build_operator
from kilonova.workloads.process.options import NAME, OperatorOptions, WebhookOptions
from kilonova.workloads.resources import (
    CLIQUES,
    COMPUTE_DOMAINS,
    GANGS,
    SCALING_GROUPS,
    SERVICES,
    SETS,
    TOPOLOGY_BINDINGS,
)

_log = structured_logging.get_logger(__name__)


def run_operator(options: OperatorOptions, *, ignored: Sequence[str] = ()) -> None:
    """Run until stopped; `CommandFailed` if it cannot start or fails.

    `ignored` are fields of the configuration file without a meaning here, which are logged.
    """
    if ignored:
        configure_logging(options)
        _log.info("fields of configuration file ignored", names=list(ignored))

    async def assemble(process: Process) -> None:
        await _check_prerequisites(process.client, options)
        await _add_runnables(process, options)
        await assemble_parts(process, "operator")

    run_process(NAME, options, assemble)


async def _check_prerequisites(client: Client, options: OperatorOptions) -> None:
    await require_installed(client, (SETS, CLIQUES, SCALING_GROUPS, TOPOLOGY_BINDINGS, GANGS))
    if options.settings.mnnvl and (missing := await missing_kinds(client, (COMPUTE_DOMAINS,))):
        fix = "install NVIDIA's DRA driver, or leave out --mnnvl"
        raise CommandFailed(f"multi-node NVLink requires {missing}: {fix}", NO_COMPUTE_DOMAINS)
    webhooks = options.webhooks
    if webhooks is not None and webhooks.certs is None:
        await require_namespace(client, options.namespace, "the Lease and the certificates")
    if webhooks is not None and isinstance(webhooks.address, ServiceEndpoint):
        await _require_service(client, webhooks.address)


async def _require_service(client: Client, address: ServiceEndpoint) -> None:
    """`CommandFailed` if the Service of the webhooks does not exist."""
    try:
        await client.get(SERVICES, address.name, address.namespace)
    except NotFound:
        problem = f"Service {address.namespace}/{address.name} for the webhooks does not exist"
        alternatives = "--webhook-service NAMESPACE/NAME, --webhook-url https://HOST:PORT if this "
        alternatives += "process runs outside of the cluster, or --no-webhooks"
        raise CommandFailed(f"{problem}: create it, or use {alternatives}") from None


async def _add_runnables(process: Process, options: OperatorOptions) -> None:
    manager, metrics = process.manager, process.metrics
    if options.webhooks is not None:
        user = await authenticated_user(process.client) if options.settings.authorizer else ""
        others = await load_part_webhooks(process.client, "operator")
        manager.add(_build_admission_server(process, options, options.webhooks, user, others))
    operator = build_operator(
        process.leader_client, options.settings, now=_now, runtime_metrics=metrics
    )
    manager.add(*operator.runnables)
    manager.add_leader_runnables(
        *operator.leader_runnables, WorkloadMetrics(operator.caches, metrics.registry, _now)
    )


def _build_admission_server(
    process: Process,
    options: OperatorOptions,
    webhooks: WebhookOptions,
    user: str,
    others: Sequence[WebhookSet],
) -> AdmissionServer:
    """The webhook server; it writes the webhook configurations once it has certificates. `others`
    are webhooks of other components in this process."""
    client, settings, address = process.client, options.settings, webhooks.address
    installed = asyncio.Event()

    async def publish(ca_pem: bytes) -> None:
        await install_webhooks(client, address, ca_pem, settings)
        for each in others:
            await each.install(client, address, ca_pem)
        installed.set()

    server = AdmissionServer(
        {**build_handlers(client, settings, operator=user), **_merge_handlers(others)},
        _certificate_source(options.namespace, webhooks, client),
        host=webhooks.host,
        port=webhooks.port,
        publish=publish,
        metrics=process.metrics,
    )
    port = bind_port(server, f"--port {webhooks.port}")
    if isinstance(address, UrlEndpoint) and (parts := urlsplit(address.url)).port == 0:
        host = parts.netloc.rpartition(":")[0]
        address = UrlEndpoint(parts._replace(netloc=f"{host}:{port}").geturl())
    message = "webhook configurations are not written yet"
    process.health.add_readiness_check("webhooks", lambda: None if installed.is_set() else message)
    return server


def _merge_handlers(sets: Sequence[WebhookSet]) -> dict[str, Handler]:
    return {path: handler for each in sets for path, handler in each.handlers.items()}


def _certificate_source(
    namespace: str, webhooks: WebhookOptions, client: Client
) -> CertificateSource:
    directory, address = webhooks.certs, webhooks.address
    if directory is not None and webhooks.certificates == "given":
        return FileSource(directory / "tls.crt", directory / "tls.key", directory / "ca.crt")
    if isinstance(address, ServiceEndpoint):
        names = service_names(address.name, address.namespace)
    else:
        names = [urlsplit(address.url).hostname or ""]
    if directory is not None:
        return FolderSource(directory, names)
    return SecretSource(client, webhooks.secret, namespace, names)


def _now() -> datetime:
    return datetime.now(UTC)
