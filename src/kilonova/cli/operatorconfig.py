"""Grove's OperatorConfiguration, for those who have one: `kilonova run operator --config FILE`.

What it says and an option says as well, the option decides. Fields that mean nothing here are
accepted, so that the file of an installed Grove can be taken as it is; `ignored` names them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from kilonova.api.durations import parse_duration
from kilonova.cli.configfiles import converted, fields_of, read_config

KIND = "OperatorConfiguration"
DEFAULT_SCHEDULER = "default-scheduler"

_UNUSED = (
    "runtimeClientConnection",
    "debugging",
    "controllers",
    "server.metrics",
)
"""Fields of Grove that mean nothing here."""


class _Part(msgspec.Struct, frozen=True, rename="camel"):
    """A part of the file; unknown fields are told of, not refused."""


class LeaderElection(_Part, frozen=True, rename="camel"):
    """How one of several copies is chosen."""

    enabled: bool | None = None
    lease_duration: str | None = None
    renew_deadline: str | None = None
    retry_period: str | None = None
    resource_lock: Literal["leases"] | None = None
    resource_name: str | None = None
    resource_namespace: str | None = None


class Webhooks(_Part, frozen=True, rename="camel"):
    """The admission server, and where its certificates are."""

    bind_address: str | None = None
    port: int | None = None
    server_cert_dir: str | None = None
    secret_name: str | None = None
    cert_provision_mode: Literal["auto", "manual"] | None = None


class Port(_Part, frozen=True, rename="camel"):
    """A server for machines."""

    bind_address: str | None = None
    port: int | None = None


class Server(_Part, frozen=True, rename="camel"):
    """What the process serves."""

    webhooks: Webhooks = Webhooks()
    health_probes: Port = Port()
    metrics: Port = Port()


class Authorizer(_Part, frozen=True, rename="camel"):
    """Who may change what the operator made."""

    enabled: bool | None = None
    exempt_service_account_user_names: tuple[str, ...] = ()


class Switch(_Part, frozen=True, rename="camel"):
    """On or off."""

    enabled: bool | None = None


class Network(_Part, frozen=True, rename="camel"):
    """Multi-node NVLink."""

    auto_mnnvl_enabled: bool | None = msgspec.field(default=None, name="autoMNNVLEnabled")


class Profile(_Part, frozen=True, rename="camel"):
    """A scheduler that sets may name; how it is set up is its own concern."""

    name: str
    config: Any = None


class Scheduler(_Part, frozen=True, rename="camel"):
    """Which schedulers there are."""

    profiles: tuple[Profile, ...] = ()
    default_profile_name: str | None = None


class Connection(_Part, frozen=True, rename="camel"):
    """How often the API may be asked: ours is not slowed down by itself."""

    qps: float | None = None
    burst: int | None = None


class Concurrency(_Part, frozen=True, rename="camel"):
    """How many objects at a time: ours finds out by itself."""

    concurrent_syncs: int | None = None


class OperatorConfiguration(_Part, frozen=True, rename="camel"):
    """The whole file."""

    api_version: Literal["operator.config.grove.io/v1alpha1"]
    kind: Literal["OperatorConfiguration"]
    leader_election: LeaderElection = LeaderElection()
    server: Server = Server()
    authorizer: Authorizer = Authorizer()
    topology_aware_scheduling: Switch = Switch()
    network: Network = Network()
    scheduler: Scheduler = Scheduler()
    runtime_client_connection: Connection = Connection()
    controllers: dict[str, Concurrency] = {}
    log_level: Literal["debug", "info", "error"] | None = None
    log_format: Literal["json", "text"] | None = None

    @property
    def schedulers(self) -> tuple[str, ...]:
        """Names of all schedulers, the default one first; empty where the file names none."""
        given = self.scheduler
        if not given.profiles and given.default_profile_name is None:
            return ()
        known = dict.fromkeys(each.name for each in given.profiles)
        known[DEFAULT_SCHEDULER] = None
        first = given.default_profile_name or DEFAULT_SCHEDULER
        return (first, *(name for name in known if name != first))


@dataclass(frozen=True, slots=True)
class ReadConfiguration:
    """A file as it was read."""

    configuration: OperatorConfiguration
    ignored: tuple[str, ...]
    """Fields that it sets and that mean nothing here."""


def read_configuration(file: Path) -> ReadConfiguration:
    """Read the file; `CommandFailed` names the field that cannot be, its value and the rule."""
    return read_config(file, parse_configuration)


def parse_configuration(content: bytes) -> ReadConfiguration:
    """The configuration in a YAML text; ValueError says what is wrong with which field."""
    written = fields_of(content, KIND)
    read = converted(written, OperatorConfiguration)
    problem = next(_problems(read), None)
    if problem is not None:
        raise ValueError(problem)
    ignored = _ignored(written, OperatorConfiguration)
    return ReadConfiguration(read, tuple(sorted(ignored)))


def _problems(read: OperatorConfiguration) -> Iterator[str]:
    yield from _election_problems(read.leader_election)
    for path, port in (
        ("server.webhooks.port", read.server.webhooks.port),
        ("server.healthProbes.port", read.server.health_probes.port),
        ("server.metrics.port", read.server.metrics.port),
    ):
        if port is not None and not 0 <= port <= 65535:
            yield f"{path}: {port} is no port: from 0 to 65535"
    yield from _scheduler_problems(read.scheduler)
    if (read.runtime_client_connection.burst or 0) < 0:
        yield f"runtimeClientConnection.burst: {read.runtime_client_connection.burst} is negative"
    for name, each in read.controllers.items():
        if each.concurrent_syncs is not None and each.concurrent_syncs < 1:
            path = f"controllers.{name}.concurrentSyncs"
            yield f"{path}: {each.concurrent_syncs} must be at least 1"
    webhooks = read.server.webhooks
    if webhooks.cert_provision_mode == "manual" and not webhooks.server_cert_dir:
        field = "server.webhooks.serverCertDir"
        yield f"{field}: is missing: certProvisionMode manual needs the folder of the certificates"


def _election_problems(election: LeaderElection) -> Iterator[str]:
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
            yield f"{path}: {text!r} is no duration: write it as 15s or 1m30s"
            return
        if seconds[field] <= 0:
            yield f"{path}: {text!r} must be greater than 0"
    if seconds["leaseDuration"] <= seconds["renewDeadline"]:
        yield "leaderElection.leaseDuration: must be greater than renewDeadline"


def _scheduler_problems(scheduler: Scheduler) -> Iterator[str]:
    seen: set[str] = set()
    for index, profile in enumerate(scheduler.profiles):
        path = f"scheduler.profiles[{index}].name"
        if not profile.name:
            yield f"{path}: is empty: name a scheduler"
        if profile.name in seen:
            yield f"{path}: {profile.name!r} is there twice"
        seen.add(profile.name)
    default = scheduler.default_profile_name
    if default is not None and default not in seen | {DEFAULT_SCHEDULER}:
        names = ", ".join(sorted(seen | {DEFAULT_SCHEDULER}))
        yield f"scheduler.defaultProfileName: {default!r} is none of the profiles: {names}"


def _ignored(
    tree: Mapping[str, Any], type_: type[msgspec.Struct], above: str = ""
) -> Iterator[str]:
    """Paths of what is not used, each without what is below it."""
    known = {each.encode_name: each.type for each in msgspec.structs.fields(type_)}
    for name, value in tree.items():
        path = f"{above}{name}"
        inner = known.get(name)
        if path in _UNUSED or name not in known:
            yield path
        elif isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            yield from _ignored(value, inner, f"{path}.")
