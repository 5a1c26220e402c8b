"""Grove's OperatorConfiguration: `kilonova run operator --config FILE`.

Flags take precedence over the file. Fields without a meaning here are accepted, so that the file of
a Grove installation can be used as it is; `ParsedConfiguration.ignored` names them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from kilonova.api.durations import parse_duration
from kilonova.api.scheduling_names import DEFAULT_SCHEDULER_NAME
from kilonova.component.process.config_files import convert_fields, parse_yaml_object, read_config

KIND = "OperatorConfiguration"

_IGNORED_FIELDS = (
    "runtimeClientConnection",
    "debugging",
    "controllers",
    "server.metrics",
)
"""Fields of Grove without a meaning here."""


class _Section(msgspec.Struct, frozen=True, rename="camel"):
    """A section of the file; unknown fields are reported, not rejected."""


class LeaderElection(_Section, frozen=True, rename="camel"):
    """Leader election."""

    enabled: bool | None = None
    lease_duration: str | None = None
    renew_deadline: str | None = None
    retry_period: str | None = None
    resource_lock: Literal["leases"] | None = None
    resource_name: str | None = None
    resource_namespace: str | None = None


class Webhooks(_Section, frozen=True, rename="camel"):
    """The admission server and its certificates."""

    bind_address: str | None = None
    port: int | None = None
    server_cert_dir: str | None = None
    secret_name: str | None = None
    cert_provision_mode: Literal["auto", "manual"] | None = None


class ServerEndpoint(_Section, frozen=True, rename="camel"):
    """Address and port of a server."""

    bind_address: str | None = None
    port: int | None = None


class Server(_Section, frozen=True, rename="camel"):
    """The servers of the process."""

    webhooks: Webhooks = Webhooks()
    health_probes: ServerEndpoint = ServerEndpoint()
    metrics: ServerEndpoint = ServerEndpoint()


class Authorizer(_Section, frozen=True, rename="camel"):
    """Protection of managed objects against changes by other users."""

    enabled: bool | None = None
    exempt_service_account_user_names: tuple[str, ...] = ()


class Toggle(_Section, frozen=True, rename="camel"):
    """On or off."""

    enabled: bool | None = None


class Network(_Section, frozen=True, rename="camel"):
    """Multi-node NVLink."""

    auto_mnnvl_enabled: bool | None = msgspec.field(default=None, name="autoMNNVLEnabled")


class Profile(_Section, frozen=True, rename="camel"):
    """A scheduler that PodCliqueSets may name; its `config` is not used here."""

    name: str
    config: Any = None


class Scheduler(_Section, frozen=True, rename="camel"):
    """The schedulers that PodCliqueSets may name."""

    profiles: tuple[Profile, ...] = ()
    default_profile_name: str | None = None


class Connection(_Section, frozen=True, rename="camel"):
    """Client-side rate limits; our client has none."""

    qps: float | None = None
    burst: int | None = None


class Concurrency(_Section, frozen=True, rename="camel"):
    """Concurrent reconciles; ours adapt by themselves."""

    concurrent_syncs: int | None = None


class OperatorConfiguration(_Section, frozen=True, rename="camel"):
    """The whole file."""

    api_version: Literal["operator.config.grove.io/v1alpha1"]
    kind: Literal["OperatorConfiguration"]
    leader_election: LeaderElection = LeaderElection()
    server: Server = Server()
    authorizer: Authorizer = Authorizer()
    topology_aware_scheduling: Toggle = Toggle()
    network: Network = Network()
    scheduler: Scheduler = Scheduler()
    runtime_client_connection: Connection = Connection()
    controllers: dict[str, Concurrency] = {}
    log_level: Literal["debug", "info", "error"] | None = None
    log_format: Literal["json", "text"] | None = None

    @property
    def schedulers(self) -> tuple[str, ...]:
        """Names of all schedulers, the default one first; empty if the file names none."""
        section = self.scheduler
        if not section.profiles and section.default_profile_name is None:
            return ()
        names = dict.fromkeys(each.name for each in section.profiles)
        names[DEFAULT_SCHEDULER_NAME] = None
        first = section.default_profile_name or DEFAULT_SCHEDULER_NAME
        return (first, *(name for name in names if name != first))


@dataclass(frozen=True, slots=True)
class ParsedConfiguration:
    """A decoded file."""

    configuration: OperatorConfiguration
    ignored: tuple[str, ...]
    """Fields in the file without a meaning here."""


def read_operator_configuration(file: Path) -> ParsedConfiguration:
    """Read the file; `CommandFailed` names the invalid field, its value and the rule."""
    return read_config(file, parse_operator_configuration)


def parse_operator_configuration(content: bytes) -> ParsedConfiguration:
    """The configuration in a YAML document; ValueError names the invalid field and the rule."""
    fields = parse_yaml_object(content, KIND)
    configuration = convert_fields(fields, OperatorConfiguration)
    problem = next(_find_problems(configuration), None)
    if problem is not None:
        raise ValueError(problem)
    ignored = _find_ignored_fields(fields, OperatorConfiguration)
    return ParsedConfiguration(configuration, tuple(sorted(ignored)))


def _find_problems(configuration: OperatorConfiguration) -> Iterator[str]:
    yield from _find_election_problems(configuration.leader_election)
    for path, port in (
        ("server.webhooks.port", configuration.server.webhooks.port),
        ("server.healthProbes.port", configuration.server.health_probes.port),
        ("server.metrics.port", configuration.server.metrics.port),
    ):
        if port is not None and not 0 <= port <= 65535:
            yield f"{path}: {port} must be from 0 to 65535"
    yield from _find_scheduler_problems(configuration.scheduler)
    burst = configuration.runtime_client_connection.burst
    if burst is not None and burst < 0:
        yield f"runtimeClientConnection.burst: {burst} must be 0 or more"
    for name, each in configuration.controllers.items():
        if each.concurrent_syncs is not None and each.concurrent_syncs < 1:
            path = f"controllers.{name}.concurrentSyncs"
            yield f"{path}: {each.concurrent_syncs} must be at least 1"
    webhooks = configuration.server.webhooks
    if webhooks.cert_provision_mode == "manual" and not webhooks.server_cert_dir:
        field = "server.webhooks.serverCertDir"
        yield f"{field}: must be set if certProvisionMode is manual"


def _find_election_problems(election: LeaderElection) -> Iterator[str]:
    seconds: dict[str, float] = {}
    for field, text, default in (
        ("leaseDuration", election.lease_duration, 15.0),
        ("renewDeadline", election.renew_deadline, 10.0),
        ("retryPeriod", election.retry_period, 2.0),
    ):
        path = f"leaderElection.{field}"
        try:
            seconds[field] = default if text is None else parse_duration(text)
        except ValueError:
            yield f"{path}: {text!r} is not a duration: write it as 15s or 1m30s"
            return
        if seconds[field] <= 0:
            yield f"{path}: {text!r} must be greater than 0"
    if seconds["leaseDuration"] <= seconds["renewDeadline"]:
        yield "leaderElection.leaseDuration: must be greater than renewDeadline"


def _find_scheduler_problems(scheduler: Scheduler) -> Iterator[str]:
    seen: set[str] = set()
    for index, profile in enumerate(scheduler.profiles):
        path = f"scheduler.profiles[{index}].name"
        if not profile.name:
            yield f"{path}: must not be empty"
        if profile.name in seen:
            yield f"{path}: {profile.name!r} is a duplicate"
        seen.add(profile.name)
    default = scheduler.default_profile_name
    if default is not None and default not in seen | {DEFAULT_SCHEDULER_NAME}:
        names = ", ".join(sorted(seen | {DEFAULT_SCHEDULER_NAME}))
        yield f"scheduler.defaultProfileName: {default!r} must be one of the profiles: {names}"


def _find_ignored_fields(
    fields: Mapping[str, Any], type_: type[msgspec.Struct], prefix: str = ""
) -> Iterator[str]:
    """Paths of fields that are not used; of an unused section, only its own path."""
    known = {each.encode_name: each.type for each in msgspec.structs.fields(type_)}
    for name, value in fields.items():
        path = f"{prefix}{name}"
        inner = known.get(name)
        if path in _IGNORED_FIELDS or name not in known:
            yield path
        elif isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            yield from _find_ignored_fields(value, inner, f"{path}.")
