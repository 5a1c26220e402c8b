"""Values files: what is wrong in them is told by name, all at once, with the fix."""

from pathlib import Path

import pytest

from kilonova.serving.supersonic import ValuesError, read_values
from tests.serving.supersonic.conversions import convert, group_of, problems_of, spec_of


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("envoy: {replcas: 3}", "envoy.replcas: unknown key: do you mean envoy.replicas?"),
        ("minReplicaCount: 3", "minReplicaCount: unknown key: do you mean keda.minReplicaCount?"),
        (
            "prometheus: {external: {enabeld: true}}",
            "prometheus.external.enabeld: unknown key: do you mean prometheus.external.enabled?",
        ),
        (
            "keda: {scaleUp: {x: 1}}",
            "keda.scaleUp.x: unknown key: choose from periodSeconds, stabilizationWindowSeconds, "
            "stepsize",
        ),
        ("triton: {replicas: two}", "triton.replicas: 'two' is invalid: write a whole number"),
        ("triton: {replicas: -1}", "triton.replicas: -1 is invalid: write at least 0"),
        ("triton: {replicas: true}", "triton.replicas: True is invalid: write a whole number"),
        ("keda: {enabled: 'yes'}", "keda.enabled: 'yes' is invalid: write true or false"),
        (
            "nameOverride: 5",
            "nameOverride: 5 is invalid: write text, in quotes where YAML would read a number, as "
            '"1"',
        ),
        (
            "envoy: {auth: {audiences: a b}}",
            "envoy.auth.audiences: 'a b' is invalid: write a list of texts: [a, b]",
        ),
        ("triton: {args: [1]}", "triton.args: a list is invalid: write a list of texts: [a, b]"),
        (
            "triton: {tolerations: [x]}",
            "triton.tolerations: a list is invalid: write a list of objects: [{…}]",
        ),
        ("triton: 5", "triton: 5 is invalid: write fields with values: {…}"),
        (
            "envoy: {grpc_route_timeout: soon}",
            "envoy.grpc_route_timeout: 'soon' is invalid: write a duration, as 30s or 1m30s",
        ),
        (
            "envoy: {loadBalancerPolicy: FASTEST}",
            "envoy.loadBalancerPolicy: 'FASTEST' is invalid: choose from LEAST_REQUEST, "
            "ROUND_ROBIN, RANDOM, RING_HASH, MAGLEV",
        ),
        (
            "autoscaler: {enabled: true}",
            "autoscaler: Write `keda`: minReplicas is `keda.minReplicaCount`, and so on.",
        ),
        (
            "prometheus: {url: prometheus.example.org}",
            "prometheus.url: Write `prometheus.external.url`, with `enabled: true`.",
        ),
        (
            "envoy: {rate_limiter: {prometheus_based: {luaConfig: cfg/mine.lua}}}",
            "envoy.rate_limiter.prometheus_based.luaConfig: There is no Lua filter: the limit is "
            "`limits.load`. Another filter needs `envoy.external_config`.",
        ),
        (
            "inferenceServer: {type: nereid}",
            "triton.type: 'nereid' is invalid: choose from triton. Only `triton`: for another "
            "server of the v2 protocol write an InferenceService.",
        ),
        (
            "inferenceServer: {replicas: 1}\ntriton: {replicas: 2}",
            "inferenceServer: is the same as triton: write one of them",
        ),
        (
            "nameOverride: 4ever",
            "nameOverride: '4ever' cannot be the name of a Service: write lower-case letters, "
            "digits and hyphens, beginning with a letter",
        ),
    ],
)
def test_a_problem_names_the_key_the_value_and_the_fix(text: str, problem: str) -> None:
    assert problems_of(text) == (problem,)


def test_all_problems_are_told_at_once() -> None:
    assert len(problems_of("triton: {replicas: x, imag: y}\nkeda: {maxReplicaCount: 0}")) == 3


def test_values_are_merged_into_the_defaults_as_helm_does() -> None:
    resources = group_of("triton: {resources: {limits: {nvidia.com/gpu: 1}}}")["resources"]
    assert resources == {
        "limits": {"cpu": "1", "memory": "2G", "nvidia.com/gpu": "1"},
        "requests": {"cpu": "1", "memory": "2G"},
    }


def test_null_removes_a_default() -> None:
    assert "resources" not in group_of("triton: {resources: null}")
    assert group_of("triton: {resources: {limits: null}}")["resources"] == {
        "requests": {"cpu": "1", "memory": "2G"}
    }


def test_keys_of_newer_charts_name_the_same_servers() -> None:
    assert group_of("inferenceServer: {replicas: 3}")["replicas"] == 3


def test_numbers_become_quantities_that_our_kinds_accept() -> None:
    resources = spec_of("envoy: {resources: {requests: {cpu: 0.1}}}")["gateway"]["resources"]
    assert resources["requests"]["cpu"] == "0.1"


def test_what_has_no_effect_is_reported_if_its_section_is_on() -> None:
    grafana = "grafana: {enabled: %s, adminPassword: secret, sidecar: {}}\n"
    assert not any("adminPassword" in each for each in convert(grafana % "false").warnings)
    warnings = convert(grafana % "true").warnings
    assert (
        "grafana.adminPassword: without effect: No Grafana is installed: the dashboards are a "
        "ConfigMap for yours." in warnings
    )
    assert "grafana.sidecar: without effect: there is no subchart grafana" in warnings
    assert not any("secret" in each for each in warnings)


@pytest.mark.parametrize(
    ("content", "words"),
    [("[1]", "is no values file"), ("a: [", "is not YAML"), (None, "cannot be read")],
)
def test_a_file_that_is_no_values_file_is_refused(
    content: str | None, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "values.yaml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ValuesError, match=words):
        read_values(path)


def test_an_empty_file_is_a_release_with_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "values.yaml"
    path.write_text("# nothing\n")
    assert read_values(path) == {}
