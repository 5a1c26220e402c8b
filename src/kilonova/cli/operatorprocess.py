"""`kilonova run operator`: the operator as a process of its own, for any cluster.

Every copy keeps caches and answers webhooks; only the one that holds the Lease writes. A process
that loses the Lease ends, and whoever looks after it starts it again.
"""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import urlsplit

from kilonova.cli.failure import CommandFailed
from kilonova.cli.operatoroptions import OperatorOptions, Webhooks
from kilonova.cli.preflight import (
    require_kinds,
    require_namespace,
    require_service,
    user_name,
)
from kilonova.cli.reasons import explained
from kilonova.kube import Client, Manager, PartFailed, Transport, find_access, logging
from kilonova.kube.admission import (
    AdmissionServer,
    FolderSource,
    GivenFiles,
    SecretSource,
    service_names,
)
from kilonova.kube.admission.sources import CertificateSource
from kilonova.kube.election import Elector, FencedTransport
from kilonova.kube.health import Health, health_server
from kilonova.kube.http import HttpTransport
from kilonova.kube.metrics import MeasuredTransport, Metrics
from kilonova.kube.webserver import WebServer
from kilonova.workloads.admission import AtService, AtUrl, build_handlers, install_webhooks
from kilonova.workloads.metrics import WorkloadMetrics
from kilonova.workloads.operator import build_operator

FIELD_MANAGER = "kilonova-operator"


_log = logging.get_logger(__name__)


def run_operator(options: OperatorOptions, *, ignored: Sequence[str] = ()) -> None:
    """Run until asked to stop; `CommandFailed` when it cannot, or can no longer.

    `ignored` are fields of the configuration file that mean nothing here.
    """
    import uvloop

    try:
        as_json = None if options.log_format is None else options.log_format == "json"
        logging.configure(options.log_level, as_json=as_json)
    except ValueError as error:
        raise CommandFailed(str(error)) from error
    if ignored:
        _log.info("ignored in the configuration file", names=list(ignored))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(options))


async def _run(options: OperatorOptions) -> None:
    metrics = Metrics()
    with explained():
        access = find_access(options.kubeconfig, options.context)
    transport = MeasuredTransport(HttpTransport(access.endpoint, access.credentials), metrics)
    async with Client(transport, field_manager=FIELD_MANAGER) as client:
        with explained():
            await _check(client, options)
            manager = await _manager(options, client, transport, metrics)
        try:
            await manager.run()
        except PartFailed as failure:
            raise CommandFailed(str(failure)) from failure


async def _check(client: Client, options: OperatorOptions) -> None:
    await require_kinds(client, options.settings)
    webhooks = options.webhooks
    if options.election is not None or (webhooks is not None and webhooks.certs is None):
        await require_namespace(client, options.namespace)
    if webhooks is not None and isinstance(webhooks.address, AtService):
        await require_service(client, webhooks.address)


async def _manager(
    options: OperatorOptions, client: Client, transport: Transport, metrics: Metrics
) -> Manager:
    elector, leading = None, client
    if options.election is not None:
        elector = Elector(
            client,
            options.election.lease,
            options.namespace,
            timing=options.election.timing,
            changed=metrics.leads(options.election.lease),
        )
        leading = _fenced(transport, elector)
    manager = Manager(election=elector)
    health = Health()
    health.add_readiness("stopping", lambda: "it stops" if manager.stopping else None)
    health.add_readiness("caches", lambda: _not_filled(manager.not_ready()))
    manager.add(_bound(health_server(health, metrics, port=options.health_port)))
    if options.webhooks is not None:
        user = await user_name(client) if options.settings.authorizer else ""
        manager.add(_admission(options, options.webhooks, client, metrics, health, user))
    operator = build_operator(leading, options.settings, now=_now, instruments=metrics)
    manager.add(*operator.parts)
    manager.add_leading(*operator.leading, WorkloadMetrics(operator.caches, metrics.registry, _now))
    return manager


def _fenced(transport: Transport, elector: Elector) -> Client:
    fenced = FencedTransport(transport, lambda: elector.leadership)
    return Client(fenced, field_manager=FIELD_MANAGER)


def _admission(
    options: OperatorOptions,
    webhooks: Webhooks,
    client: Client,
    metrics: Metrics,
    health: Health,
    user: str,
) -> AdmissionServer:
    """The server of the webhooks; it tells the API server of itself once it has certificates."""
    settings, address = options.settings, webhooks.address
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
        metrics=metrics,
    )
    port = _taken(server)
    if isinstance(address, AtUrl) and (parts := urlsplit(address.url)).port == 0:
        host = parts.netloc.rpartition(":")[0]
        address = AtUrl(parts._replace(netloc=f"{host}:{port}").geturl())
    waiting = "the API server has not been told of the webhooks"
    health.add_readiness("webhooks", lambda: None if told.is_set() else waiting)
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


def _bound(server: WebServer) -> WebServer:
    _taken(server)
    return server


def _taken(server: WebServer | AdmissionServer) -> int:
    """The port that a server has taken now, so that nothing begins that could not be served."""
    try:
        return server.bind()
    except OSError as error:
        raise CommandFailed(
            f"the port for {server.name} cannot be had: {error.strerror}; choose another"
        ) from error


def _not_filled(names: list[str]) -> str | None:
    return f"not filled yet: {', '.join(names)}" if names else None


def _now() -> datetime:
    return datetime.now(UTC)
