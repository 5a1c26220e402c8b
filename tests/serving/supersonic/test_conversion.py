"""What values become, key by key."""

from typing import Any

import pytest

from tests.serving.supersonic.conversions import convert, group_of, problems_of, spec_of

KEDA = "keda: {enabled: true}\n"
LIMITER = "envoy: {rate_limiter: {prometheus_based: {enabled: true}}}\n"
EXTERNAL = (
    "prometheus: {external: {enabled: true, url: metrics.example.org, port: 9090, scheme: http}}\n"
)


def repository_of(text: str) -> Any:
    values = f"triton: {{modelRepository: {{enabled: true, mountPath: /models, {text}}}}}"
    return group_of(values)["modelRepository"]


def test_an_instance_is_named_as_its_release_and_answers_at_port_8001() -> None:
    service = convert().service
    assert service["metadata"]["name"] == "sonic"
    assert service["metadata"]["namespace"] == "cms"
    assert service["spec"]["gateway"]["grpcPort"] == 8001
    assert [each["name"] for each in service["spec"]["servers"]] == ["triton"]
    assert convert("nameOverride: other").service["metadata"]["name"] == "other"


def test_servers_have_image_command_resources_and_placement() -> None:
    group = group_of(
        """
        triton:
          image: triton:1
          command: [tritonserver]
          args: [--model-repository=/m]
          annotations: {a: b, n: 1}
          nodeSelector: {zone: x}
          tolerations: [{key: k, operator: Exists}]
          affinity: {nodeAffinity: {}}
        """
    )
    assert (group["image"], group["command"]) == ("triton:1", ["tritonserver"])
    assert group["args"] == ["--model-repository=/m"]
    assert group["template"] == {
        "metadata": {
            "labels": {
                "app.kubernetes.io/name": "supersonic",
                "app.kubernetes.io/instance": "sonic",
                "app.kubernetes.io/component": "triton",
                "app.kubernetes.io/part-of": "supersonic",
            },
            "annotations": {"a": "b", "n": "1"},
        },
        "spec": {
            "nodeSelector": {"zone": "x"},
            "affinity": {"nodeAffinity": {}},
            "tolerations": [{"key": "k", "operator": "Exists"}],
            "containers": [{"name": "server"}],
        },
    }


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("storageType: pvc, pvc: {claimName: m}", {"persistentVolumeClaim": {"claimName": "m"}}),
        ("storageType: cvmfs-pvc", {"cvmfs": {"mount": "PersistentVolumeClaim"}}),
        ("storageType: cvmfs-hostPath", {"cvmfs": {"mount": "HostPath"}}),
        ("storageType: cvmfs", {"cvmfs": {"mount": "HostPath"}}),
        ("storageType: nfs, nfs: {server: s, path: /p}", {"nfs": {"server": "s", "path": "/p"}}),
        (
            "storageType: s3, s3: {url: 's3://b/p', secretName: k}",
            {"objectStore": {"url": "s3://b/p", "credentials": {"name": "k"}}},
        ),
    ],
)
def test_every_storage_type_is_mounted(text: str, source: Any) -> None:
    assert repository_of(text) == {"mountPath": "/models", **source}


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("storageType: pvc", "triton.modelRepository.pvc.claimName"),
        ("storageType: nfs, nfs: {path: /p}", "triton.modelRepository.nfs.server"),
        ("storageType: s3", "triton.modelRepository.s3.url"),
        ("pvc: {claimName: m}", "triton.modelRepository.storageType"),
        ("storageType: cvmfs, mountPath: models", "triton.modelRepository.mountPath"),
    ],
)
def test_a_repository_that_lacks_something_is_refused(text: str, key: str) -> None:
    values = f"triton: {{modelRepository: {{enabled: true, mountPath: /models, {text}}}}}"
    (problem,) = problems_of(values)
    assert problem.startswith(f"{key}: ")


def test_a_disabled_repository_mounts_nothing() -> None:
    assert "modelRepository" not in group_of("triton: {modelRepository: {storageType: cvmfs-pvc}}")


def test_probes_are_those_of_the_runtime_unless_written() -> None:
    assert "spec" not in group_of()["template"]
    reset = group_of("triton: {readinessProbe: {reset: true, periodSeconds: 3}}")
    assert "spec" not in reset["template"]
    (container,) = group_of(
        "triton: {readinessProbe: {periodSeconds: 3}, startupProbe: {failureThreshold: 50}}"
    )["template"]["spec"]["containers"]
    ready = {"path": "/v2/health/ready", "port": 8000}
    assert container["readinessProbe"]["httpGet"] == ready
    assert container["readinessProbe"]["periodSeconds"] == 3
    assert container["readinessProbe"]["initialDelaySeconds"] == 10
    assert container["startupProbe"]["httpGet"] == ready
    assert container["startupProbe"]["failureThreshold"] == 50


def test_a_written_command_of_a_probe_is_used() -> None:
    (container,) = group_of("triton: {readinessProbe: {command: [test, -f, /ok]}}")["template"][
        "spec"
    ]["containers"]
    assert container["readinessProbe"]["exec"] == {"command": ["test", "-f", "/ok"]}
    assert "httpGet" not in container["readinessProbe"]


def test_scaling_has_the_bounds_and_rates_of_keda() -> None:
    autoscaling = group_of(
        """
        keda:
          enabled: true
          minReplicaCount: 1
          maxReplicaCount: 11
          scaleUp: {stabilizationWindowSeconds: 15, periodSeconds: 30, stepsize: 2}
        """
    )["autoscaling"]
    assert autoscaling == {
        "minReplicas": 1,
        "maxReplicas": 11,
        "sla": {"queue": "100ms"},
        "scaleUp": {"stabilization": "15s", "maxReplicas": 2, "period": "30s"},
        "scaleDown": {"stabilization": "600s", "maxReplicas": 1, "period": "120s"},
        "scaleToZero": {"idleAfter": "120s"},
    }


def test_without_a_query_scaling_and_admission_need_no_prometheus() -> None:
    spec = spec_of(KEDA + LIMITER + "serverLoadThreshold: 20")
    assert spec["servers"][0]["autoscaling"]["sla"] == {"queue": "20ms"}
    assert spec["limits"]["load"] == {"queueTime": "20ms", "jobAdmission": True}


def test_a_query_is_asked_at_the_external_prometheus() -> None:
    spec = spec_of(KEDA + LIMITER + EXTERNAL + "serverLoadMetric: up\nserverLoadThreshold: 7")
    url = "http://metrics.example.org:9090"
    assert spec["servers"][0]["autoscaling"]["metric"] == {
        "query": "up",
        "threshold": 7,
        "perReplica": False,
        "prometheus": url,
    }
    load = {"query": "up", "threshold": 7, "prometheus": url, "jobAdmission": True}
    assert spec["limits"]["load"] == load


def test_a_query_without_any_prometheus_is_refused() -> None:
    (problem,) = problems_of(KEDA + "serverLoadMetric: up\nprometheus: {enabled: true}")
    assert problem.startswith("serverLoadMetric: needs a Prometheus")
    group = group_of(KEDA + "serverLoadMetric: up", prometheus="http://prometheus:9090")
    assert "prometheus" not in group["autoscaling"]["metric"]


@pytest.mark.parametrize(
    ("text", "in_flight", "admitted"),
    [
        ("serverLoadThreshold: 2", 2, 3),
        ("serverLoadThreshold: 1.5\nserverAdmissionThreshold: 4", 2, 4),
        ("serverAdmissionThreshold: 5", 2, 5),
        ("kilonova: {loadMetric: inFlightRatio, executionsPerServer: 4}", 8, 12),
        ("serverLoadThreshold: 2\nkilonova: {executionsPerServer: 3}", 6, 9),
    ],
)
def test_the_ratio_of_newer_charts_becomes_requests_in_flight(
    text: str, in_flight: int, admitted: int
) -> None:
    conversion = convert(KEDA + LIMITER + text)
    spec = conversion.service["spec"]
    assert spec["servers"][0]["autoscaling"]["demand"] == {
        "inFlightPerReplica": in_flight,
        "utilization": 1,
    }
    assert spec["limits"]["load"]["inFlightPerReplica"] == admitted
    assert any(each.startswith("serverLoadThreshold: ") for each in conversion.warnings)


def test_a_small_threshold_may_be_milliseconds() -> None:
    text = "serverLoadThreshold: 5\nkilonova: {loadMetric: queueTime}\n"
    assert group_of(KEDA + text)["autoscaling"]["sla"] == {"queue": "5ms"}


def test_scaling_from_zero_holds_requests_as_long_as_said() -> None:
    group = group_of(
        """
        keda: {enabled: true, minReplicaCount: 0, cooldownPeriod: 30}
        scaleFromZero: {enabled: true, readyTimeoutSeconds: 200, holdMinReplicasSeconds: 90}
        """
    )
    assert group["replicas"] == 0
    autoscaling = group["autoscaling"]
    assert autoscaling["minReplicas"] == 0
    assert autoscaling["scaleToZero"] == {"idleAfter": "90s", "holdTimeout": "200s"}


def test_idle_instances_release_all_servers() -> None:
    assert (
        group_of("keda: {enabled: true, zeroIdleReplicas: true}")["autoscaling"]["minReplicas"] == 0
    )


def test_bounds_that_contradict_are_refused() -> None:
    (problem,) = problems_of("keda: {enabled: true, minReplicaCount: 3}")
    assert problem == "keda.minReplicaCount: 3 is greater than keda.maxReplicaCount, 2"


def test_the_gateway_has_pods_service_timeout_and_balancing() -> None:
    gateway = spec_of(
        """
        envoy:
          replicas: 3
          image: registry.example.org/envoy:mine
          annotations: {a: b}
          nodeSelector: {zone: x}
          tolerations: [{key: k}]
          grpc_route_timeout: 5s
          loadBalancerPolicy: ROUND_ROBIN
          service:
            type: LoadBalancer
            annotations: {pool: private}
            ports: [{name: grpc, port: 9001}, {name: http, port: 9000}, {name: admin, port: 9901}]
        """
    )["gateway"]
    assert (gateway["replicas"], gateway["timeout"]) == (3, "5s")
    assert gateway["image"] == "registry.example.org/envoy:mine"
    labels = gateway["pods"].pop("labels")
    assert labels["app.kubernetes.io/component"] == "envoy"
    assert gateway["pods"] == {
        "annotations": {"a": "b"},
        "nodeSelector": {"zone": "x"},
        "tolerations": [{"key": "k"}],
    }
    assert gateway["loadBalancing"] == {"policy": "RoundRobin"}
    assert gateway["service"] == {"type": "LoadBalancer", "annotations": {"pool": "private"}}
    assert (gateway["grpcPort"], gateway["httpPort"]) == (9001, 9000)


@pytest.mark.parametrize(
    ("image", "used"),
    [
        ("envoyproxy/envoy:v1.30-latest", None),
        ("docker.io/envoyproxy/envoy:v1.30.9", None),
        ("envoyproxy/envoy:v1.41.0", "envoyproxy/envoy:v1.41.0"),
        ("mirror.example.org/envoy:v1.30.9", "mirror.example.org/envoy:v1.30.9"),
    ],
)
def test_an_old_release_of_envoy_is_replaced_with_a_warning(image: str, used: str | None) -> None:
    conversion = convert(f"envoy: {{image: '{image}'}}")
    assert conversion.service["spec"]["gateway"].get("image") == used
    assert any(each.startswith("envoy.image: ") for each in conversion.warnings) == (used is None)


@pytest.mark.parametrize("policy", ["RING_HASH", "MAGLEV"])
def test_hashing_policies_have_a_key(policy: str) -> None:
    conversion = convert(f"envoy: {{loadBalancerPolicy: {policy}}}")
    balancing = conversion.service["spec"]["gateway"]["loadBalancing"]
    assert balancing["hash"] == [{"source": "ClientAddress"}]
    assert any("envoy.loadBalancerPolicy" in each for each in conversion.warnings)


def test_connections_are_limited_by_rate_and_by_number() -> None:
    limits = spec_of(
        """
        envoy:
          rate_limiter:
            max_connections: 100
            listener_level: {enabled: true, max_tokens: 7, tokens_per_fill: 2, fill_interval: 3s}
        """
    )["limits"]
    assert limits == {
        "connections": 100,
        "connectionRate": {"burst": 7, "perFill": 2, "fillInterval": "3s"},
    }


def test_traces_go_to_a_collector() -> None:
    (problem,) = problems_of("opentelemetry-collector: {enabled: true}")
    assert "set kilonova.tracing.endpoint to HOST:PORT" in problem
    tracing = spec_of(
        """
        opentelemetry-collector: {enabled: true}
        envoy: {tracing_sampling_rate: 0.05}
        kilonova: {tracing: {endpoint: "otel:4317"}}
        """
    )["gateway"]["tracing"]
    assert tracing == {"endpoint": "otel:4317", "samplingPercent": 5}


def test_monitors_and_dashboards_are_created_for_programs_that_are_there() -> None:
    conversion = convert(
        "prometheus: {enabled: true, server: {global: {scrape_interval: 10s}}}\n"
        "grafana: {enabled: true}"
    )
    assert conversion.service["spec"]["monitoring"] == {
        "serviceMonitors": True,
        "scrapeInterval": "10s",
        "dashboards": True,
    }
    assert len(conversion.warnings) == 2


def test_services_have_the_names_that_users_know() -> None:
    conversion = convert(
        """
        triton: {service: {labels: {scrape_metrics: "true"}}}
        metricsCollector:
          enabled: true
          port: 9003
          ingress: {enabled: true, hostName: m.example.org}
        """
    )
    servers, collector, ingress = conversion.objects
    assert servers["metadata"]["name"] == "sonic-triton"
    assert servers["metadata"]["labels"]["scrape_metrics"] == "true"
    assert servers["spec"]["clusterIP"] == "None"
    assert [each["port"] for each in servers["spec"]["ports"]] == [8000, 8001, 8002]
    assert collector["metadata"]["name"] == "sonic-metrics-collector"
    assert collector["spec"]["ports"][0]["port"] == 9003
    assert collector["spec"]["ports"][0]["targetPort"] == 8002
    assert collector["spec"]["selector"] == servers["spec"]["selector"]
    assert ingress["spec"]["rules"][0]["host"] == "m.example.org"
