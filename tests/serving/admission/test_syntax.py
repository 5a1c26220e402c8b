"""Texts that become part of the configuration of Envoy, which rejects all of it for one of them."""

from collections.abc import Callable

import msgspec
import pytest

from kilonova.api.serving import InferenceServiceSpec
from kilonova.serving.admission.syntax import (
    check_endpoint,
    check_jwks_uri,
    check_path,
    check_prometheus_url,
)
from kilonova.serving.admission.texts import validate_texts

GOOD = (
    (check_jwks_uri, "https://issuer.example.com/keys?a=b"),
    (check_jwks_uri, "http://10.0.0.1:8080/k"),
    (check_jwks_uri, "http://[::1]:80/k"),
    (check_jwks_uri, "https://exa_mple.svc"),
    (check_jwks_uri, "http://x/caf%C3%A9"),
    (check_endpoint, "collector.monitoring:4317"),
    (check_endpoint, "[::1]:4317"),
    (check_endpoint, "http://c:4318/"),
    (check_path, "/"),
    (check_path, "/caf%C3%A9?deep=true"),
)
BAD = (
    (check_jwks_uri, "http://exämple.test/k"),
    (check_jwks_uri, "http://x/kä"),
    (check_jwks_uri, "http://a*b/k"),
    (check_jwks_uri, "http://user:word@x/k"),
    (check_jwks_uri, "http://[::1/k"),
    (check_jwks_uri, "http://:80/k"),
    (check_jwks_uri, "http://x:0/k"),
    (check_endpoint, "collectör:4317"),
    (check_endpoint, "a@b:1"),
    (check_endpoint, "a/b:1"),
    (check_endpoint, ":4317"),
    (check_path, "health"),
    (check_path, "/é"),
    (check_path, "/a#b"),
    (check_path, "/a b"),
)


@pytest.mark.parametrize(("check", "text"), GOOD)
def test_texts_that_envoy_takes_are_accepted(check: Callable[[str], str | None], text: str) -> None:
    assert check(text) is None


@pytest.mark.parametrize(("check", "text"), BAD)
def test_texts_that_envoy_rejects_are_refused(
    check: Callable[[str], str | None], text: str
) -> None:
    problem = check(text)
    assert problem is not None
    assert problem.startswith(("must be", "must start with '/'"))


@pytest.mark.parametrize(
    ("check", "example"),
    [
        (check_jwks_uri, "https://issuer.example.com/keys"),
        (check_prometheus_url, "http://prometheus.monitoring:9090"),
    ],
)
def test_refusal_of_a_url_has_an_example_of_its_kind(
    check: Callable[[str], str | None], example: str
) -> None:
    assert check(example) is None
    assert check("prometheus:9090") == f"must be a URL with a host, such as {example}"


def test_url_of_a_metric_is_that_of_a_prometheus() -> None:
    metric = {"query": "up", "threshold": 1, "prometheus": "p:9090"}
    group = {"name": "m", "protocol": "V2", "autoscaling": {"maxReplicas": 2, "metric": metric}}
    limits = {"load": {"query": "up", "threshold": 1, "prometheus": "p:9090"}}
    spec = msgspec.convert({"servers": [group], "limits": limits}, InferenceServiceSpec)
    problem = "must be a URL with a host, such as http://prometheus.monitoring:9090"
    assert [(each.field, each.message) for each in validate_texts(spec)] == [
        (field, f'Invalid value: "p:9090": {problem}')
        for field in (
            "spec.limits.load.prometheus",
            "spec.servers[0].autoscaling.metric.prometheus",
        )
    ]
