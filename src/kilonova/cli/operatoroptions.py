"""What `kilonova run operator` was asked for: by its options, else by a file, else as usual."""

from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Literal, TypeVar
from urllib.parse import urlsplit

from kilonova.api.durations import parse_duration
from kilonova.cli.operatorconfig import OperatorConfiguration
from kilonova.cli.process import HEALTH_PORT, NAMESPACE, Election, LogFormat, ProcessOptions
from kilonova.kube.election import Timing
from kilonova.workloads.admission import AtService, AtUrl
from kilonova.workloads.backends import BACKENDS
from kilonova.workloads.settings import Settings

T = TypeVar("T")

NAME = "kilonova-operator"
"""Of the Service, the Lease and the Secret, as `deploy/operator` has them."""
WEBHOOK_PORT = 9443
HTTPS_PORT = 443

Certificates = Literal["own", "given"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options as typed; None where one was not given."""

    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str | None = None
    webhook_url: str | None = None
    webhook_service: str | None = None
    webhooks: bool = True
    port: int | None = None
    certs: Path | None = None
    health_port: int | None = None
    leader_elect: bool | None = None
    lease: str | None = None
    startup_image: str | None = None
    mnnvl: bool | None = None
    topology: bool | None = None
    schedulers: tuple[str, ...] = ()
    """In addition to those that there are."""
    authorizer: bool | None = None
    exempt_users: tuple[str, ...] = ()
    log_format: LogFormat | None = None


@dataclass(frozen=True, slots=True)
class Webhooks:
    """How the API server reaches the operator, and where the operator listens for it."""

    address: AtService | AtUrl
    host: str
    port: int
    certs: Path | None
    """A folder of certificates; None keeps them in the Secret."""
    certificates: Certificates
    """Whether those in the folder are made by the operator, or given by somebody else."""
    secret: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorOptions(ProcessOptions):
    """An operator to run; its certificates are where its Lease is."""

    webhooks: Webhooks | None
    settings: Settings


_SILENT = OperatorConfiguration("operator.config.grove.io/v1alpha1", "OperatorConfiguration")


def choose(asked: Asked, file: OperatorConfiguration = _SILENT) -> OperatorOptions:
    """What holds of what was asked for; ValueError if it cannot be."""
    election = file.leader_election
    namespace = asked.namespace or election.resource_namespace or NAMESPACE
    leads = _first(True, asked.leader_elect, election.enabled)
    return OperatorOptions(
        kubeconfig=asked.kubeconfig,
        context=asked.context,
        namespace=namespace,
        webhooks=_webhooks(asked, file, namespace) if asked.webhooks else None,
        health_port=_first(HEALTH_PORT, asked.health_port, file.server.health_probes.port),
        election=Election(asked.lease or election.resource_name or NAME, _timing(file))
        if leads
        else None,
        settings=_settings(asked, file),
        log_format=asked.log_format or file.log_format,
        log_level=file.log_level,
    )


def _webhooks(asked: Asked, file: OperatorConfiguration, namespace: str) -> Webhooks:
    given = file.server.webhooks
    by_others = asked.certs is None and given.cert_provision_mode == "manual"
    folder = Path(given.server_cert_dir) if by_others and given.server_cert_dir else None
    host, usual = "", WEBHOOK_PORT
    port: int | None = None
    address: AtService | AtUrl
    if asked.webhook_url is not None:
        if asked.webhook_service is not None:
            raise ValueError("--webhook-url and --webhook-service exclude each other")
        address = AtUrl(asked.webhook_url)
        host, port = _listening_place(asked.webhook_url)
        usual = HTTPS_PORT
    else:
        address = _service(asked.webhook_service, namespace)
    return Webhooks(
        address,
        given.bind_address or host,
        # Options win over the file, and --port over the port in a URL, which may be a proxy's.
        _first(usual, asked.port, port, given.port),
        asked.certs or folder,
        "given" if by_others else "own",
        given.secret_name or NAME,
    )


def _listening_place(url: str) -> tuple[str, int | None]:
    """Where to listen for calls to a URL: other machines may reach this one by another name.

    The port is None where the URL names none.
    """
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError as error:
        raise ValueError(f'webhook URL "{url}": {error}') from error
    host = parts.hostname or ""
    return host if _is_loopback(host) else "", port


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _service(text: str | None, namespace: str) -> AtService:
    if text is None:
        return AtService(NAME, namespace)
    where, _, name = text.partition("/")
    if not where or not name or "/" in name:
        raise ValueError(f'--webhook-service "{text}": write it as NAMESPACE/NAME')
    return AtService(name, where)


def _timing(file: OperatorConfiguration) -> Timing:
    given, usual = file.leader_election, Timing()

    def seconds(text: str | None, default: float) -> float:
        return default if text is None else parse_duration(text)

    try:
        return Timing(
            seconds(given.lease_duration, usual.lease_duration),
            seconds(given.renew_deadline, usual.renew_deadline),
            seconds(given.retry_period, usual.retry_period),
        )
    except ValueError as error:
        raise ValueError(f"leaderElection: {error}") from error


def _settings(asked: Asked, file: OperatorConfiguration) -> Settings:
    usual, topology = Settings(), file.topology_aware_scheduling.enabled
    own = asked.schedulers
    exempt = asked.exempt_users or file.authorizer.exempt_service_account_user_names
    return Settings(
        topology=_first(usual.topology, asked.topology, topology),
        mnnvl=_first(usual.mnnvl, asked.mnnvl, file.network.auto_mnnvl_enabled),
        startup_image=asked.startup_image or usual.startup_image,
        schedulers=tuple(dict.fromkeys((*(file.schedulers or usual.schedulers), *own))),
        backends=tuple(
            each for each in dict.fromkeys((*file.schedulers, *own)) if each in BACKENDS
        ),
        authorizer=_first(usual.authorizer, asked.authorizer, file.authorizer.enabled),
        exempt_users=exempt,
    )


def _first(default: T, *said: T | None) -> T:
    return next((each for each in said if each is not None), default)
