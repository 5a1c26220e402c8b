"""Odd values of every key: each is refused by name, or gives a service that the API accepts."""

import copy
import math
from datetime import date
from typing import Any

import msgspec
import pytest
import yaml

from kilonova.api.serving import InferenceServiceSpec
from kilonova.serving.supersonic import ValuesError, convert_values
from kilonova.serving.supersonic.keys import KEYS, Path, format_path
from tests.serving.supersonic.conversions import convert, group_of, problems_of, spec_of

_EVERYTHING = """
keda: {enabled: true}
scaleFromZero: {enabled: true}
envoy:
  rate_limiter: {listener_level: {enabled: true}, prometheus_based: {enabled: true}}
  ingress: {enabled: true, hostName: a.example.org}
metricsCollector: {enabled: true, ingress: {enabled: true, hostName: m.example.org}}
prometheus: {enabled: true}
grafana: {enabled: true}
kilonova: {tracing: {endpoint: "otel:4317"}}
"""
_ODD: tuple[object, ...] = (
    *(None, True, False, 0, -1, 1.5, 10**6, 10**400, math.nan, math.inf),
    *("", " ", "x", "\0", b"x", date(2030, 1, 1)),
    *([], [None], [1], ["a"], [{}], [{"name": "grpc", "port": True}]),
    *({}, {"a": None}, {"a": True}, {"a": 1}, {"a": {"b": "c"}}, {1: "x"}),
)
_PATHS = sorted({each[:length] for each in KEYS for length in range(1, len(each) + 1)})


@pytest.mark.parametrize("path", _PATHS, ids=format_path)
def test_an_odd_value_is_refused_or_gives_a_valid_service(path: Path) -> None:
    for start in ({}, yaml.safe_load(_EVERYTHING)):
        for value in _ODD:
            tree = copy.deepcopy(start)
            place = tree
            for name in path[:-1]:
                place = place.setdefault(name, {})
            place[path[-1]] = value
            assert is_refused_or_valid(tree)


def is_refused_or_valid(values: Any) -> bool:
    try:
        spec = convert_values(values, "sonic", "cms").service["spec"]
    except ValuesError:
        return True
    return bool(msgspec.convert(spec, InferenceServiceSpec, strict=True))


def test_a_section_of_which_nothing_is_written_has_its_defaults() -> None:
    assert spec_of("triton:\nenvoy:\nkeda:\nprometheus:\nkilonova:\n") == spec_of()


def test_a_needed_value_that_is_null_is_the_default() -> None:
    assert group_of("triton: {replicas: null, image: null}") == group_of()
    text = "keda: {enabled: true, scaleUp: %s}"
    assert group_of(text % "{stepsize: null}") == group_of(text % "{}")


def test_the_default_handler_of_a_probe_is_removed_by_null() -> None:
    (container,) = group_of("triton: {startupProbe: {httpGet: null, tcpSocket: {port: http}}}")[
        "template"
    ]["spec"]["containers"]
    assert container["startupProbe"]["tcpSocket"] == {"port": 8000}
    assert "httpGet" not in container["startupProbe"]


def test_labels_and_annotations_need_no_quotes() -> None:
    conversion = convert(
        """
        triton:
          annotations: {prometheus.io/scrape: true, prometheus.io/port: 8002, none: null}
          nodeSelector: {nvidia.com/gpu.present: true}
          service: {labels: {scrape: true}, annotations: {n: 5.0, f: 0.5, d: 2030-01-01}}
        envoy: {annotations: {a: false}, nodeSelector: {n: 1}, service: {annotations: {s: true}}}
        """
    )
    spec = conversion.service["spec"]
    template = spec["servers"][0]["template"]
    assert template["metadata"]["annotations"] == {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": "8002",
    }
    assert template["spec"]["nodeSelector"] == {"nvidia.com/gpu.present": "true"}
    assert spec["gateway"]["pods"]["annotations"] == {"a": "false"}
    assert spec["gateway"]["pods"]["nodeSelector"] == {"n": "1"}
    assert spec["gateway"]["service"]["annotations"] == {"s": "true"}
    metadata = conversion.objects[0]["metadata"]
    assert metadata["labels"]["scrape"] == "true"
    assert metadata["annotations"] == {"n": "5", "f": "0.5", "d": "2030-01-01"}


def test_a_large_threshold_is_a_duration_without_an_exponent() -> None:
    group = group_of("keda: {enabled: true}\nserverLoadThreshold: 1000000")
    assert group["autoscaling"]["sla"] == {"queue": "1000000ms"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "triton: {annotations: {a: {b: c}}}",
            'triton.annotations: an object is invalid: write names and texts: {name: "text"}',
        ),
        ("triton: {resources: {1: 2}}", "triton.resources: an object is invalid: write fields"),
        ("triton: {replicas: 3000000000}", "triton.replicas: 3000000000 is invalid: write at most"),
        (
            "prometheus: {external: {port: 70000}}",
            "prometheus.external.port: 70000 is invalid: write at most 65535",
        ),
        ("serverLoadThreshold: .nan", "serverLoadThreshold: nan is invalid: write a number"),
        ("serverLoadThreshold: 1000001", "serverLoadThreshold: 1000001 is invalid: write at most"),
        (
            "triton: {service: {ports: [{name: http, port: 8000}]}}\n"
            "metricsCollector: {enabled: true}",
            "metricsCollector.enabled: needs the port metrics of triton.service.ports",
        ),
        (f"nameOverride: {49 * 'a'}", f"nameOverride: '{49 * 'a'}' has 49 characters, and the"),
        (
            f"nameOverride: {46 * 'a'}\nmetricsCollector: {{enabled: true}}",
            f"nameOverride: '{46 * 'a'}' has 46 characters, and the Service NAME-metrics-collector",
        ),
    ],
)
def test_what_no_service_can_have_is_refused(text: str, problem: str) -> None:
    (found,) = problems_of(text)
    assert found.startswith(problem)


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (
            "keda: {enabled: true, zeroIdleReplicas: true, minReplicaCount: 2}",
            "keda.minReplicaCount: 2 has no effect beside keda.zeroIdleReplicas",
        ),
        (
            "serverLoadThreshold: 100\nserverAdmissionThreshold: 3",
            "serverAdmissionThreshold: 3 is less than serverLoadThreshold, 100",
        ),
        (
            "envoy: {auth: {enabled: true, jwt_issuer: i, port: 8443, "
            "jwt_remote_jwks_uri: 'https://i.example.org/keys'}}",
            "envoy.auth.port: without effect: keys are read from https://i.example.org/keys",
        ),
    ],
)
def test_a_value_that_another_one_overrides_is_reported(text: str, warning: str) -> None:
    (found,) = convert(text).warnings
    assert found.startswith(warning)


@pytest.mark.parametrize("port", ["8443", "null"])
def test_the_port_of_the_keys_may_be_written_twice(port: str) -> None:
    text = (
        f"envoy: {{auth: {{enabled: true, jwt_issuer: i, port: {port}, "
        "jwt_remote_jwks_uri: 'https://i.example.org:8443/keys'}}"
    )
    assert convert(text).warnings == ()
