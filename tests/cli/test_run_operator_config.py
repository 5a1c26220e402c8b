"""Grove's OperatorConfiguration: what is taken from it, what is ignored, what is refused."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kilonova.cli.failure import CommandFailed
from kilonova.cli.operatorconfig import parse_configuration, read_configuration

HEAD = {"apiVersion": "operator.config.grove.io/v1alpha1", "kind": "OperatorConfiguration"}


def parsed(**fields: Any) -> Any:
    return parse_configuration(msgspec.yaml.encode({**HEAD, **fields}))


def test_a_file_as_grove_installs_it_is_taken() -> None:
    read = parsed(
        runtimeClientConnection={"qps": 100, "burst": 150},
        leaderElection={
            "enabled": True,
            "leaseDuration": "15s",
            "renewDeadline": "10s",
            "retryPeriod": "2s",
            "resourceLock": "leases",
            "resourceName": "grove-operator-leader-election",
        },
        server={
            "webhooks": {"port": 9443, "serverCertDir": "/etc/certs", "secretName": "s"},
            "healthProbes": {"port": 9444},
            "metrics": {"port": 9445},
        },
        controllers={"podCliqueSet": {"concurrentSyncs": 3}},
        logLevel="info",
        logFormat="json",
        authorizer={"enabled": True, "exemptServiceAccountUserNames": ["system:me"]},
        topologyAwareScheduling={"enabled": True},
        network={"autoMNNVLEnabled": True},
        scheduler={"profiles": [{"name": "kai-scheduler"}], "defaultProfileName": "kai-scheduler"},
        debugging={"enableProfiling": False},
    )
    configuration = read.configuration
    assert read.ignored == (
        "controllers",
        "debugging",
        "runtimeClientConnection",
        "server.metrics",
    )
    assert configuration.server.webhooks.port == 9443
    assert configuration.authorizer.exempt_service_account_user_names == ("system:me",)
    assert configuration.network.auto_mnnvl_enabled is True
    assert configuration.schedulers == ("kai-scheduler", "default-scheduler")


def test_what_is_not_said_stays_open() -> None:
    configuration = parsed().configuration
    assert configuration.leader_election.enabled is None
    assert configuration.topology_aware_scheduling.enabled is None
    assert configuration.schedulers == ()


def test_fields_that_nobody_knows_are_told_of() -> None:
    assert parsed(server={"webhook": {"port": 1}}, colour="red").ignored == (
        "colour",
        "server.webhook",
    )


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"logLevel": "loud"}, "logLevel: Invalid enum value 'loud'"),
        ({"logFormat": "xml"}, "logFormat: Invalid enum value 'xml'"),
        (
            {"server": {"webhooks": {"port": "x"}}},
            "server.webhooks.port: Expected `int | null`, got `str`",
        ),
        (
            {"server": {"webhooks": {"port": 70000}}},
            "server.webhooks.port: 70000 is no port: from 0 to 65535",
        ),
        (
            {"server": {"webhooks": {"certProvisionMode": "manual"}}},
            "server.webhooks.serverCertDir: is missing: certProvisionMode manual needs the "
            "folder of the certificates",
        ),
        (
            {"leaderElection": {"leaseDuration": "soon"}},
            "leaderElection.leaseDuration: 'soon' is no duration: write it as 15s or 1m30s",
        ),
        (
            {"leaderElection": {"retryPeriod": "0s"}},
            "leaderElection.retryPeriod: '0s' must be greater than 0",
        ),
        (
            {"leaderElection": {"leaseDuration": "5s"}},
            "leaderElection.leaseDuration: must be greater than renewDeadline",
        ),
        (
            {"scheduler": {"profiles": [{"name": "a"}, {"name": "a"}]}},
            "scheduler.profiles[1].name: 'a' is there twice",
        ),
        (
            {"scheduler": {"defaultProfileName": "b"}},
            "scheduler.defaultProfileName: 'b' is none of the profiles: default-scheduler",
        ),
        (
            {"controllers": {"podClique": {"concurrentSyncs": 0}}},
            "controllers.podClique.concurrentSyncs: 0 must be at least 1",
        ),
        ({"runtimeClientConnection": {"burst": -1}}, "runtimeClientConnection.burst: -1 is negat"),
        ({"kind": "Other"}, "kind: Invalid enum value 'Other'"),
    ],
)
def test_bad_values_are_refused_with_their_field(fields: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}"):
        parsed(**fields)


@pytest.mark.parametrize("content", ["", "- a", "a: [", "just text"])
def test_what_is_no_configuration_is_refused(content: str) -> None:
    with pytest.raises(ValueError, match=r"is no"):
        parse_configuration(content.encode())


def test_the_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match=r"missing\.yaml: cannot be read: No such file"):
        read_configuration(tmp_path / "missing.yaml")
    (tmp_path / "bad.yaml").write_text("kind: Other\n")
    with pytest.raises(CommandFailed, match=r"bad\.yaml: "):
        read_configuration(tmp_path / "bad.yaml")
