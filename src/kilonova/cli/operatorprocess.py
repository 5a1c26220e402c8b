"""`kilonova run operator`: the operator as a process of its own, for any cluster."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import urlsplit

from kilonova.cli.failure import NO_COMPUTE_DOMAINS, CommandFailed
from kilonova.cli.operatoroptions import NAME, OperatorOptions, Webhooks
from kilonova.cli.preflight import (
    missing_kinds,
    require_installed,
    require_namespace,
    user_name,
)
from kilonova.cli.process import Process, configure_logging, run_process, taken_port
from kilonova.kube import Client, NotFound, logging
from kilonova.kube.admission import (
    AdmissionServer,
    FolderSource,
    GivenFiles,
    SecretSource,
    service_names,
)
from kilonova.kube.admission.sources import CertificateSource
from kilonova.workloads.admission import AtService, AtUrl, build_handlers, install_webhooks
from kilonova.workloads.metrics import WorkloadMetrics
from kilonova.workloads.operator import build_operator
from kilonova.workloads.resources import (
    CLIQUES,
    COMPUTE_DOMAINS,
    GANGS,
    GROUPS,
    SERVICES,
    SETS,
    TOPOLOGIES,
)

_log = logging.get_logger(__name__)


def run_operator(options: OperatorOptions, *, ignored: Sequence[str] = ()) -> None:
    """Run until asked to stop; `CommandFailed` when it cannot, or can no longer.

    `ignored` are fields of the configuration file that mean nothing here.
    """
    if ignored:
        configure_logging(options)
        _log.info("ignored in the configuration file", names=list(ignored))

    async def assemble(process: Process) -> None:
        await _check(process.client, options)
        await _add_parts(process, options)

    run_process(NAME, options, assemble)


async def _check(client: Client, options: OperatorOptions) -> None:
    await require_installed(client, (SETS, CLIQUES, GROUPS, TOPOLOGIES, GANGS))
    if options.settings.mnnvl and (missing := await missing_kinds(client, (COMPUTE_DOMAINS,))):
        fix = "install NVIDIA's DRA driver, or leave out --mnnvl"
        raise CommandFailed(f"multi-node NVLink needs {missing}: {fix}", NO_COMPUTE_DOMAINS)
    webhooks = options.webhooks
    if webhooks is not None and webhooks.certs is None:
        await require_namespace(client, options.namespace, "the Lease and the certificates")
    if webhooks is not None and isinstance(webhooks.address, AtService):
        await _require_service(client, webhooks.address)


async def _require_service(client: Client, address: AtService) -> None:
    """That the API server will find the webhooks behind their Service."""
    try:
        await client.get(SERVICES, address.name, address.namespace)
    except NotFound:
        problem = f"there is no Service {address.namespace}/{address.name} for the webhooks"
        others = "--webhook-service NAMESPACE/NAME, --webhook-url https://HOST:PORT where this "
        others += "process is outside of the cluster, or --no-webhooks"
        raise CommandFailed(f"{problem}: create it, or say {others}") from None


async def _add_parts(process: Process, options: OperatorOptions) -> None:
    manager, metrics = process.manager, process.metrics
    if options.webhooks is not None:
        user = await user_name(process.client) if options.settings.authorizer else ""
        manager.add(_admission(process, options, options.webhooks, user))
    operator = build_operator(process.leading, options.settings, now=_now, instruments=metrics)
    manager.add(*operator.parts)
    manager.add_leading(*operator.leading, WorkloadMetrics(operator.caches, metrics.registry, _now))


def _admission(
    process: Process, options: OperatorOptions, webhooks: Webhooks, user: str
) -> AdmissionServer:
    """The server of the webhooks; it tells the API server of itself once it has certificates."""
    client, settings, address = process.client, options.settings, webhooks.address
    told = asyncio.Event()

    async def publish(ca_pem: bytes) -> None:
        await install_webhooks(client, address, ca_pem, settings)
        told.set()

    server = AdmissionServer(
        build_handlers(client, settings, operator=user),
        _source(options.namespace, webhooks, client),
        host=webhooks.host,
        port=webhooks.port,
        publish=publish,
        metrics=process.metrics,
    )
    port = taken_port(server, f"--port {webhooks.port}")
    if isinstance(address, AtUrl) and (parts := urlsplit(address.url)).port == 0:
        host = parts.netloc.rpartition(":")[0]
        address = AtUrl(parts._replace(netloc=f"{host}:{port}").geturl())
    waiting = "the API server has not been told of the webhooks"
    process.health.add_readiness("webhooks", lambda: None if told.is_set() else waiting)
    return server


def _source(namespace: str, webhooks: Webhooks, client: Client) -> CertificateSource:
    folder, address = webhooks.certs, webhooks.address
    if folder is not None and webhooks.certificates == "given":
        return GivenFiles(folder / "tls.crt", folder / "tls.key", folder / "ca.crt")
    if isinstance(address, AtService):
        names = service_names(address.name, address.namespace)
    else:
        names = [urlsplit(address.url).hostname or ""]
    if folder is not None:
        return FolderSource(folder, names)
    return SecretSource(client, webhooks.secret, namespace, names)


def _now() -> datetime:
    return datetime.now(UTC)
