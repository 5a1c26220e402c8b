"""Options of `kilonova run operator`: flags, then the file, then defaults."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from kilonova.kube.election import LeaderElectionTiming
from kilonova.workloads.admission import ServiceEndpoint, UrlEndpoint
from kilonova.workloads.process.config import OperatorConfiguration
from kilonova.workloads.process.options import OperatorFlags, resolve_options
from kilonova.workloads.settings import OperatorSettings


def file(**fields: Any) -> OperatorConfiguration:
    head = {"apiVersion": "operator.config.grove.io/v1alpha1", "kind": "OperatorConfiguration"}
    return msgspec.convert({**head, **fields}, OperatorConfiguration)


def test_defaults_match_the_deployed_operator() -> None:
    options = resolve_options(OperatorFlags())
    assert options.namespace == "kilonova-system"
    assert options.webhooks is not None
    assert options.webhooks.address == ServiceEndpoint("kilonova-operator", "kilonova-system")
    assert (options.webhooks.host, options.webhooks.port) == ("", 9443)
    assert options.webhooks.certs is None
    assert options.election is not None
    assert (options.election.lease, options.election.timing) == (
        "kilonova-operator",
        LeaderElectionTiming(),
    )
    assert options.health_port == 8081
    assert options.settings == OperatorSettings()


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://10.0.0.5:9000", ("", 9000)),
        ("https://operator.example.com", ("", 443)),
        ("https://127.0.0.1:0", ("127.0.0.1", 0)),
        ("https://[::1]:9443/below", ("::1", 9443)),
        ("https://localhost:9443", ("localhost", 9443)),
    ],
)
def test_listen_address_follows_the_webhook_url(url: str, address: tuple[str, int]) -> None:
    webhooks = resolve_options(OperatorFlags(webhook_url=url)).webhooks
    assert webhooks is not None
    assert webhooks.address == UrlEndpoint(url)
    assert (webhooks.host, webhooks.port) == address


@pytest.mark.parametrize(
    ("flags", "port"),
    [
        (OperatorFlags(webhook_url="https://10.0.0.5:9000"), 9000),
        (OperatorFlags(webhook_url="https://127.0.0.1:0"), 0),
        (OperatorFlags(webhook_url="https://10.0.0.5:9000", port=9001), 9001),
        (OperatorFlags(webhook_url="https://10.0.0.5"), 1),
        (OperatorFlags(), 1),
    ],
)
def test_port_of_the_url_takes_precedence_over_the_file(flags: OperatorFlags, port: int) -> None:
    webhooks = resolve_options(flags, file(server={"webhooks": {"port": 1}})).webhooks
    assert webhooks is not None
    assert webhooks.port == port


def test_flags_take_precedence_over_the_file() -> None:
    configuration = file(
        leaderElection={
            "enabled": False,
            "resourceName": "theirs",
            "resourceNamespace": "grove-system",
            "leaseDuration": "30s",
        },
        server={
            "webhooks": {"port": 1, "secretName": "certs", "bindAddress": "10.0.0.1"},
            "healthProbes": {"port": 2},
        },
        authorizer={"enabled": True, "exemptServiceAccountUserNames": ["a"]},
        topologyAwareScheduling={"enabled": False},
        network={"autoMNNVLEnabled": True},
        scheduler={"profiles": [{"name": "kai-scheduler"}]},
        logLevel="debug",
        logFormat="text",
    )
    from_file = resolve_options(OperatorFlags(), configuration)
    assert from_file.election is None
    assert from_file.namespace == "grove-system"
    assert from_file.health_port == 2
    assert from_file.webhooks is not None
    assert (from_file.webhooks.host, from_file.webhooks.port) == ("10.0.0.1", 1)
    assert from_file.webhooks.secret == "certs"
    assert from_file.settings == OperatorSettings(
        topology=False,
        mnnvl=True,
        authorizer=True,
        exempt_users=("a",),
        schedulers=("default-scheduler", "kai-scheduler"),
        backends=("kai-scheduler",),
    )
    assert (from_file.log_level, from_file.log_format) == ("debug", "text")
    flags = OperatorFlags(
        namespace="mine",
        leader_elect=True,
        lease="ours",
        port=0,
        health_port=0,
        topology=True,
        mnnvl=False,
        authorizer=False,
        exempt_users=("b",),
        startup_image="own",
        log_format="json",
    )
    from_flags = resolve_options(flags, configuration)
    assert from_flags.namespace == "mine"
    assert from_flags.election is not None
    assert from_flags.election.lease == "ours"
    assert from_flags.election.timing == LeaderElectionTiming(lease_duration=30.0)
    assert from_flags.health_port == 0
    assert from_flags.webhooks is not None
    assert from_flags.webhooks.port == 0
    assert from_flags.settings == OperatorSettings(
        startup_image="own",
        exempt_users=("b",),
        schedulers=("default-scheduler", "kai-scheduler"),
        backends=("kai-scheduler",),
    )
    assert from_flags.log_format == "json"


def test_scheduler_flags_are_added_and_enable_backends() -> None:
    defaults = OperatorSettings()
    assert resolve_options(OperatorFlags()).settings.backends == ()
    added = resolve_options(OperatorFlags(schedulers=("volcano", "kai-scheduler", "own"))).settings
    assert added.schedulers == (*defaults.schedulers, "volcano", "own")
    assert added.backends == ("volcano", "kai-scheduler")
    profiles = file(scheduler={"profiles": [{"name": "kai-scheduler"}]})
    both = resolve_options(OperatorFlags(schedulers=("volcano",)), profiles).settings
    assert both.schedulers == ("default-scheduler", "kai-scheduler", "volcano")
    assert both.backends == ("kai-scheduler", "volcano")


def test_certificates_are_generated_in_or_read_from_a_directory() -> None:
    own = resolve_options(OperatorFlags(certs=Path("/own"))).webhooks
    assert own is not None
    assert (own.certs, own.certificates) == (Path("/own"), "own")
    webhooks = {"serverCertDir": "/theirs", "certProvisionMode": "manual"}
    given = resolve_options(OperatorFlags(), file(server={"webhooks": webhooks})).webhooks
    assert given is not None
    assert (given.certs, given.certificates) == (Path("/theirs"), "given")
    automatic = resolve_options(
        OperatorFlags(), file(server={"webhooks": {"serverCertDir": "/theirs"}})
    ).webhooks
    assert automatic is not None
    assert automatic.certs is None


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (
            OperatorFlags(webhook_service="name"),
            '--webhook-service "name": write it as NAMESPACE/NAME',
        ),
        (OperatorFlags(webhook_service="a/b/c"), '"a/b/c": write it as NAMESPACE/NAME'),
        (OperatorFlags(webhook_url="http://x"), 'webhook URL "http://x": must be https'),
        (
            OperatorFlags(webhook_url="https://x:y"),
            'webhook URL "https://x:y": Port could not be cast',
        ),
        (OperatorFlags(webhook_url="https://x", webhook_service="a/b"), "exclude each other"),
    ],
)
def test_invalid_combinations_are_rejected(flags: OperatorFlags, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        resolve_options(flags)


def test_renew_deadline_beyond_lease_duration_is_rejected() -> None:
    with pytest.raises(ValueError, match="leaderElection: renew_deadline must be greater"):
        resolve_options(OperatorFlags(), file(leaderElection={"retryPeriod": "9s"}))
