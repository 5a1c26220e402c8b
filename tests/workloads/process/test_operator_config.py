"""Grove's OperatorConfiguration: used, ignored and invalid fields."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kilonova.component.failure import CommandFailed
from kilonova.workloads.process.config import (
    parse_operator_configuration,
    read_operator_configuration,
)

HEAD = {"apiVersion": "operator.config.grove.io/v1alpha1", "kind": "OperatorConfiguration"}


def parse(**fields: Any) -> Any:
    return parse_operator_configuration(msgspec.yaml.encode({**HEAD, **fields}))


def test_file_of_a_grove_installation_is_accepted() -> None:
    parsed = parse(
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
    configuration = parsed.configuration
    assert parsed.ignored == (
        "controllers",
        "debugging",
        "runtimeClientConnection",
        "server.metrics",
    )
    assert configuration.server.webhooks.port == 9443
    assert configuration.authorizer.exempt_service_account_user_names == ("system:me",)
    assert configuration.network.auto_mnnvl_enabled is True
    assert configuration.schedulers == ("kai-scheduler", "default-scheduler")


def test_absent_fields_stay_unset() -> None:
    configuration = parse().configuration
    assert configuration.leader_election.enabled is None
    assert configuration.topology_aware_scheduling.enabled is None
    assert configuration.schedulers == ()


def test_unknown_fields_are_reported() -> None:
    assert parse(server={"webhook": {"port": 1}}, colour="red").ignored == (
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
            "server.webhooks.port: 70000 must be from 0 to 65535",
        ),
        (
            {"server": {"webhooks": {"certProvisionMode": "manual"}}},
            "server.webhooks.serverCertDir: must be set if certProvisionMode is manual",
        ),
        (
            {"leaderElection": {"leaseDuration": "soon"}},
            "leaderElection.leaseDuration: 'soon' is not a duration: write it as 15s or 1m30s",
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
            "scheduler.profiles[1].name: 'a' is a duplicate",
        ),
        (
            {"scheduler": {"defaultProfileName": "b"}},
            "scheduler.defaultProfileName: 'b' must be one of the profiles: default-scheduler",
        ),
        (
            {"controllers": {"podClique": {"concurrentSyncs": 0}}},
            "controllers.podClique.concurrentSyncs: 0 must be at least 1",
        ),
        ({"runtimeClientConnection": {"burst": -1}}, "runtimeClientConnection.burst: -1 must be 0"),
        ({"kind": "Other"}, "kind: Invalid enum value 'Other'"),
    ],
)
def test_invalid_values_are_rejected_with_their_field(fields: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(problem)}"):
        parse(**fields)


@pytest.mark.parametrize("content", ["", "- a", "a: [", "just text"])
def test_non_configuration_is_rejected(content: str) -> None:
    with pytest.raises(ValueError, match=r"is not"):
        parse_operator_configuration(content.encode())


def test_errors_name_the_file(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match=r"missing\.yaml: cannot be read: No such file"):
        read_operator_configuration(tmp_path / "missing.yaml")
    (tmp_path / "bad.yaml").write_text("kind: Other\n")
    with pytest.raises(CommandFailed, match=r"bad\.yaml: "):
        read_operator_configuration(tmp_path / "bad.yaml")
