"""Defects of SuperSONIC's chart that ours does not have (specification §1.7); those of traffic are
tested with gateway, limits and scaling."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.serving.supersonic.conversions import convert, group_of, problems_of, spec_of

AUTH = """
envoy:
  auth:
    enabled: true
    jwt_issuer: https://issuer.example.org
    jwt_remote_jwks_uri: https://issuer.example.org/keys
    audiences: [a, b]
"""
PAGE = Path(__file__).parents[3] / "docs" / "serving" / "supersonic.md"
STATIC = "load_from_configmap: true, configmap_name: mine"


def test_2_jobs_are_turned_away_by_a_known_load_only() -> None:
    load = spec_of("envoy: {rate_limiter: {prometheus_based: {enabled: true}}}")["limits"]["load"]
    # No query, whose answer may be missing, `1e-05` or `NaN`.
    assert load == {"queueTime": "100ms", "jobAdmission": True}


def test_3_zero_replicas_are_zero() -> None:
    assert group_of("triton: {replicas: 0}")["replicas"] == 0
    assert group_of("keda: {enabled: true, minReplicaCount: 0}")["autoscaling"]["minReplicas"] == 0


def test_3_an_upgrade_does_not_reset_the_number_of_servers() -> None:
    assert "replicas" not in group_of("triton: {replicas: 4}\nkeda: {enabled: true}")


def test_4_servers_drain_without_a_command_in_the_container() -> None:
    group = group_of("triton: {readinessProbe: {periodSeconds: 5}}")
    assert group["drain"] == "60s"
    (container,) = group["template"]["spec"]["containers"]
    assert set(container) == {"name", "readinessProbe"}


def test_6_the_number_of_connections_is_another_limit_than_their_rate() -> None:
    assert spec_of("envoy: {rate_limiter: {max_connections: 5}}")["limits"] == {"connections": 5}


def test_7_the_documented_storage_type_cvmfs_is_mounted() -> None:
    group = group_of(
        "triton: {modelRepository: {enabled: true, storageType: cvmfs, mountPath: /cvmfs}}"
    )
    assert group["modelRepository"]["cvmfs"] == {"mount": "HostPath"}


def test_8_each_audience_is_an_audience() -> None:
    (provider,) = spec_of(AUTH)["auth"]["jwt"]
    assert provider["audiences"] == ["a", "b"]
    assert provider["issuer"] == "https://issuer.example.org"
    assert provider["jwksUri"] == "https://issuer.example.org/keys"


@pytest.mark.parametrize("key", ["jwt_issuer", "jwt_remote_jwks_uri"])
def test_8_auth_that_lacks_something_is_refused_rather_than_open(key: str) -> None:
    values = AUTH.replace(f"{key}: ", f"{key}: ''  # ")
    assert problems_of(values) == (f"envoy.auth.{key}: is required with envoy.auth.enabled: true",)


def test_9_hosts_of_an_ingress_are_its_host() -> None:
    ingress = spec_of("envoy: {ingress: {enabled: true, hosts: [sonic.example.org]}}")["gateway"]
    assert ingress["ingress"] == {"host": "sonic.example.org"}


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("enabled: true", "envoy.ingress.hostName"),
        ("enabled: true, hosts: [a.example.org, b.example.org]", "envoy.ingress.hosts"),
    ],
)
def test_9_an_ingress_without_its_one_host_is_refused(text: str, key: str) -> None:
    (problem,) = problems_of(f"envoy: {{ingress: {{{text}}}}}")
    assert problem.startswith(f"{key}: ")


@pytest.mark.parametrize("release", ["supersonic", "a", "geddes"])
def test_9_no_name_of_a_subchart_has_to_contain_that_of_the_release(release: str) -> None:
    text = """
        prometheus: {enabled: true}
        grafana: {enabled: true, dashboardsConfigMaps: {default: some-dashboard}}
        """
    values: Any = convert(f"nameOverride: {release}\n{text.replace(chr(10) + ' ' * 8, chr(10))}")
    assert values.service["metadata"]["name"] == release


def test_an_external_configuration_may_stand_beside_the_limiter() -> None:
    conversion = convert(
        f"envoy: {{external_config: {{{STATIC}}}, "
        "rate_limiter: {prometheus_based: {enabled: true}}}"
    )
    assert conversion.service["spec"]["gateway"]["staticConfig"] == {"name": "mine"}
    (warning,) = conversion.warnings
    assert warning.startswith("envoy.rate_limiter.prometheus_based.enabled: without effect")


def test_an_external_configuration_does_not_silently_drop_auth() -> None:
    (problem,) = problems_of(AUTH + f"  external_config: {{{STATIC}}}")
    assert problem.startswith("envoy.auth.enabled: has no effect beside envoy.external_config")


def test_12_the_administration_of_envoy_is_no_port_of_the_service() -> None:
    gateway = spec_of()["gateway"]
    assert {key: value for key, value in gateway.items() if key.endswith("Port")} == {
        "grpcPort": 8001
    }


def test_the_page_names_tests_of_all_defects() -> None:
    """A test that is renamed is renamed on the page."""
    rows = re.findall(r"^\| ([0-9]+)\. .*$", PAGE.read_text(), re.MULTILINE)
    assert rows == [str(number) for number in range(1, 13)]
    cells = re.findall(r"\]\((\S+/tests/\S+\.py)\) ([^;|]+)", PAGE.read_text())
    assert len(cells) >= len(rows)
    for path, names in cells:
        source = (PAGE.parent / path).read_text()
        for name in re.findall(r"`(\w+)`", names):
            assert f"def {name}(" in source, path
