"""What `kilonova run operator` was asked for: options, then a file, then what is usual."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from kilonova.cli.operatorconfig import OperatorConfiguration
from kilonova.cli.operatoroptions import Asked, choose
from kilonova.kube.election import Timing
from kilonova.workloads.admission import AtService, AtUrl
from kilonova.workloads.settings import Settings


def file(**fields: Any) -> OperatorConfiguration:
    head = {"apiVersion": "operator.config.grove.io/v1alpha1", "kind": "OperatorConfiguration"}
    return msgspec.convert({**head, **fields}, OperatorConfiguration)


def test_without_options_it_is_the_deployed_operator() -> None:
    options = choose(Asked())
    assert options.namespace == "kilonova-system"
    assert options.webhooks is not None
    assert options.webhooks.address == AtService("kilonova-operator", "kilonova-system")
    assert (options.webhooks.host, options.webhooks.port) == ("", 9443)
    assert options.webhooks.certs is None
    assert options.election is not None
    assert (options.election.lease, options.election.timing) == ("kilonova-operator", Timing())
    assert options.health_port == 8081
    assert options.settings == Settings()


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://10.0.0.5:9000", ("", 9000)),
        ("https://operator.example.com", ("", 443)),
        ("https://127.0.0.1:0", ("127.0.0.1", 0)),
        ("https://[::1]:9443/below", ("::1", 9443)),
        ("https://localhost:9443", ("localhost", 9443)),
    ],
)
def test_it_listens_where_the_url_leads(url: str, place: tuple[str, int]) -> None:
    webhooks = choose(Asked(webhook_url=url)).webhooks
    assert webhooks is not None
    assert webhooks.address == AtUrl(url)
    assert (webhooks.host, webhooks.port) == place


@pytest.mark.parametrize(
    ("asked", "port"),
    [
        (Asked(webhook_url="https://10.0.0.5:9000"), 9000),
        (Asked(webhook_url="https://127.0.0.1:0"), 0),
        (Asked(webhook_url="https://10.0.0.5:9000", port=9001), 9001),
        (Asked(webhook_url="https://10.0.0.5"), 1),
        (Asked(), 1),
    ],
)
def test_the_port_of_the_url_counts_more_than_the_file(asked: Asked, port: int) -> None:
    webhooks = choose(asked, file(server={"webhooks": {"port": 1}})).webhooks
    assert webhooks is not None
    assert webhooks.port == port


def test_an_option_counts_more_than_the_file() -> None:
    written = file(
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
    of_file = choose(Asked(), written)
    assert of_file.election is None
    assert of_file.namespace == "grove-system"
    assert of_file.health_port == 2
    assert of_file.webhooks is not None
    assert (of_file.webhooks.host, of_file.webhooks.port) == ("10.0.0.1", 1)
    assert of_file.webhooks.secret == "certs"
    assert of_file.settings == Settings(
        topology=False,
        mnnvl=True,
        authorizer=True,
        exempt_users=("a",),
        schedulers=("default-scheduler", "kai-scheduler"),
        backends=("kai-scheduler",),
    )
    assert (of_file.log_level, of_file.log_format) == ("debug", "text")
    asked = Asked(
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
    of_options = choose(asked, written)
    assert of_options.namespace == "mine"
    assert of_options.election is not None
    assert of_options.election.lease == "ours"
    assert of_options.election.timing == Timing(lease_duration=30.0)
    assert of_options.health_port == 0
    assert of_options.webhooks is not None
    assert of_options.webhooks.port == 0
    assert of_options.settings == Settings(
        startup_image="own",
        exempt_users=("b",),
        schedulers=("default-scheduler", "kai-scheduler"),
        backends=("kai-scheduler",),
    )
    assert of_options.log_format == "json"


def test_schedulers_of_options_come_on_top_and_some_get_objects_of_their_own() -> None:
    usual = Settings()
    assert choose(Asked()).settings.backends == ()
    added = choose(Asked(schedulers=("volcano", "kai-scheduler", "own"))).settings
    assert added.schedulers == (*usual.schedulers, "volcano", "own")
    assert added.backends == ("volcano", "kai-scheduler")
    profiles = file(scheduler={"profiles": [{"name": "kai-scheduler"}]})
    both = choose(Asked(schedulers=("volcano",)), profiles).settings
    assert both.schedulers == ("default-scheduler", "kai-scheduler", "volcano")
    assert both.backends == ("kai-scheduler", "volcano")


def test_certificates_are_kept_in_a_folder_or_given_in_one() -> None:
    own = choose(Asked(certs=Path("/own"))).webhooks
    assert own is not None
    assert (own.certs, own.certificates) == (Path("/own"), "own")
    webhooks = {"serverCertDir": "/theirs", "certProvisionMode": "manual"}
    given = choose(Asked(), file(server={"webhooks": webhooks})).webhooks
    assert given is not None
    assert (given.certs, given.certificates) == (Path("/theirs"), "given")
    automatic = choose(Asked(), file(server={"webhooks": {"serverCertDir": "/theirs"}})).webhooks
    assert automatic is not None
    assert automatic.certs is None


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        (Asked(webhook_service="name"), '--webhook-service "name": write it as NAMESPACE/NAME'),
        (Asked(webhook_service="a/b/c"), '"a/b/c": write it as NAMESPACE/NAME'),
        (Asked(webhook_url="http://x"), 'webhook URL "http://x": must be https'),
        (Asked(webhook_url="https://x:y"), 'webhook URL "https://x:y": Port could not be cast'),
        (Asked(webhook_url="https://x", webhook_service="a/b"), "exclude each other"),
    ],
)
def test_what_cannot_be_is_refused(asked: Asked, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        choose(asked)


def test_a_lease_that_is_renewed_too_late_is_refused() -> None:
    with pytest.raises(ValueError, match="leaderElection: renew_deadline must be greater"):
        choose(Asked(), file(leaderElection={"retryPeriod": "9s"}))
