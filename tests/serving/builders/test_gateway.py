"""The gateway: Deployment, Services, Ingress, Secret, monitors."""

import base64
from typing import Any

import pytest

from kilonova.api.json import JsonObject
from kilonova.serving.builders.access import (
    build_gateway_service,
    build_ingress,
    build_server_service,
)
from kilonova.serving.builders.gateway_pods import (
    build_disruption_budget,
    build_gateway_deployment,
)
from kilonova.serving.builders.gateway_secret import (
    build_config_secret,
    build_token_secret,
    read_token,
)
from kilonova.serving.builders.monitoring import build_pod_monitor, build_service_monitors
from kilonova.serving.resources import DataObject
from kilonova.serving.settings import ServingSettings
from tests.serving.builders.objects import LOCAL, SETTINGS, identity_of, service


def build_deployment(settings: ServingSettings = SETTINGS, **gateway: Any) -> JsonObject:
    found = service(gateway=gateway)
    return build_gateway_deployment(identity_of(found), found.spec, "hash", settings)


def pod_of(settings: ServingSettings = SETTINGS, **gateway: Any) -> JsonObject:
    return build_deployment(settings, **gateway)["spec"]["template"]["spec"]


def test_gateway_has_no_rights_and_writes_nothing() -> None:
    pod = pod_of()
    assert pod["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in pod
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 101,
        "runAsGroup": 101,
        "fsGroup": 101,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    [container] = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not any("hostPort" in each for each in container["ports"])


def test_gateway_is_ready_when_envoy_is_and_drains_before_it_stops() -> None:
    pod = pod_of()
    [container] = pod["containers"]
    assert container["readinessProbe"]["httpGet"] == {"path": "/ready", "port": 8002}
    # As long as the requests of a server may take.
    assert container["lifecycle"] == {"preStop": {"sleep": {"seconds": 60}}}
    assert pod["terminationGracePeriodSeconds"] == 65
    strategy = build_deployment()["spec"]["strategy"]["rollingUpdate"]
    assert strategy == {"maxUnavailable": 0, "maxSurge": 1}


def test_gateway_runs_the_image_as_it_is() -> None:
    [container] = pod_of()["containers"]
    assert container["image"] == SETTINGS.gateway_image
    assert container["command"] == ["envoy"]
    assert container["args"][:4] == [
        "--config-path",
        "/etc/kilonova-gateway/bootstrap.yaml",
        "--service-node",
        "$(POD_NAME)",
    ]


@pytest.mark.parametrize(
    ("settings", "resources", "workers"),
    [
        (SETTINGS, None, "2"),
        (SETTINGS, {"limits": {"cpu": "4"}}, "4"),
        (SETTINGS, {"limits": {"cpu": "1500m"}}, "2"),
        (SETTINGS, {"limits": {"cpu": "100m"}}, "1"),
        (SETTINGS, {"requests": {"cpu": "8"}}, "2"),
        (LOCAL, {"limits": {"cpu": "4"}}, "1"),
    ],
)
def test_gateway_has_the_threads_that_its_limit_pays_for(
    settings: ServingSettings, resources: Any, workers: str
) -> None:
    fields = {} if resources is None else {"resources": resources}
    args = pod_of(settings, **fields)["containers"][0]["args"]
    assert args[args.index("--concurrency") + 1] == workers


def test_gateway_may_listen_below_1024_without_a_capability() -> None:
    pod = pod_of(httpPort=80, grpcPort=0)
    assert pod["securityContext"]["sysctls"] == [
        {"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}
    ]
    assert pod["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_gateway_of_this_machine_runs_as_its_user_and_stops_soon() -> None:
    pod = pod_of(LOCAL)
    assert pod["nodeSelector"] == {"kilonova.dev/node-kind": "process"}
    assert "securityContext" not in pod
    assert pod["terminationGracePeriodSeconds"] == 8


def test_pods_of_the_gateway_are_as_the_service_says() -> None:
    toleration = {"key": "edge", "operator": "Exists"}
    pods = {
        "labels": {"team": "a", "serving.kilonova.dev/role": "server"},
        "annotations": {"note": "b"},
        "nodeSelector": {"pool": "edge"},
        "tolerations": [toleration],
        "priorityClassName": "high",
    }
    built = build_deployment(LOCAL, replicas=3, image="envoy:2", pods=pods)
    assert built["spec"]["replicas"] == 3
    template = built["spec"]["template"]
    assert template["metadata"]["labels"]["team"] == "a"
    # Ours count: by them the caches find a pod.
    assert template["metadata"]["labels"]["serving.kilonova.dev/role"] == "gateway"
    assert template["metadata"]["annotations"] == {
        "note": "b",
        "serving.kilonova.dev/config-hash": "hash",
    }
    pod = template["spec"]
    assert pod["nodeSelector"] == {"pool": "edge"}
    assert pod["tolerations"] == [toleration]
    assert pod["priorityClassName"] == "high"
    assert pod["containers"][0]["image"] == "envoy:2"


def test_further_gateway_does_not_replace_those_that_run() -> None:
    one, two = (build_deployment(replicas=each)["spec"]["template"] for each in (1, 2))
    assert one == two


def test_gateway_with_a_configuration_of_the_user_is_ready_when_it_listens() -> None:
    [container] = pod_of(staticConfig={"name": "envoy"}, httpPort=9000)["containers"]
    assert container["readinessProbe"]["tcpSocket"] == {"port": 9000}
    assert [each["name"] for each in container["ports"]] == ["http", "grpc"]


@pytest.mark.parametrize(("replicas", "exists"), [(1, False), (2, True)])
def test_several_gateways_are_not_disrupted_together(replicas: int, exists: bool) -> None:
    found = service(gateway={"replicas": replicas})
    budget = build_disruption_budget(identity_of(found), found.spec.gateway)
    assert (budget is not None) is exists
    if budget is not None:
        assert budget["spec"]["maxUnavailable"] == 1


@pytest.mark.parametrize(
    ("gateway", "ports"),
    [
        ({}, [("http", 8000, None), ("grpc", 8001, "kubernetes.io/h2c")]),
        ({"httpPort": 0}, [("grpc", 8001, "kubernetes.io/h2c")]),
        ({"grpcPort": 8000}, [("http", 8000, None)]),
        ({"tls": {"secret": "s"}}, [("http", 8000, None), ("grpc", 8001, None)]),
    ],
)
def test_service_has_the_ports_of_the_gateway_and_not_its_statistics(
    gateway: Any, ports: Any
) -> None:
    found = service(gateway=gateway)
    built = build_gateway_service(identity_of(found), found.spec.gateway, SETTINGS)
    assert [
        (each["name"], each["port"], each.get("appProtocol")) for each in built["spec"]["ports"]
    ] == ports
    assert built["metadata"]["name"] == "web"


def test_pods_listen_at_the_address_of_their_service_on_this_machine_alone() -> None:
    found = service(gateway={"service": {"annotations": {"a": "b"}, "type": "LoadBalancer"}})
    gateway = found.spec.gateway
    here = build_gateway_service(identity_of(found), gateway, LOCAL)
    assert here["metadata"]["annotations"] == {"a": "b", "kilonova.dev/host-listener": "pod"}
    static = service(gateway={"staticConfig": {"name": "envoy"}})
    other = build_gateway_service(identity_of(static), static.spec.gateway, LOCAL)
    assert other["metadata"]["annotations"] == {}
    there = build_gateway_service(identity_of(found), gateway, SETTINGS)
    assert there["metadata"]["annotations"] == {"a": "b"}
    assert there["spec"]["type"] == "LoadBalancer"


def test_headless_service_has_the_entry_pods_of_a_group() -> None:
    found = service({"name": "model", "image": "i", "ports": {"grpc": 0, "metrics": 8000}})
    built = build_server_service(identity_of(found), found.spec.servers[0])
    assert built["metadata"]["name"] == "web-model-servers"
    assert built["spec"]["clusterIP"] == "None"
    assert built["spec"]["selector"]["serving.kilonova.dev/entry"] == "true"
    assert [(each["name"], each["port"]) for each in built["spec"]["ports"]] == [("http", 8000)]


@pytest.mark.parametrize(
    ("gateway", "paths"),
    [
        (
            {},
            [
                ("/inference.GRPCInferenceService/", "grpc"),
                ("/grpc.health.v1.Health/", "grpc"),
                ("/", "http"),
            ],
        ),
        ({"grpcPort": 0}, [("/", "http")]),
        ({"httpPort": 0}, [("/", "grpc")]),
    ],
)
def test_ingress_sends_grpc_to_its_port(gateway: Any, paths: Any) -> None:
    ingress = {"host": "web.example.com", "ingressClassName": "nginx", "tlsSecret": "cert"}
    found = service(gateway={**gateway, "ingress": ingress})
    built = build_ingress(identity_of(found), found.spec.gateway)
    assert built is not None
    assert built["spec"]["ingressClassName"] == "nginx"
    assert built["spec"]["tls"] == [{"hosts": ["web.example.com"], "secretName": "cert"}]
    [rule] = built["spec"]["rules"]
    assert [
        (each["path"], each["backend"]["service"]["port"]["name"]) for each in rule["http"]["paths"]
    ] == paths


def test_secret_is_created_with_the_token_and_applied_without_it() -> None:
    identity = identity_of(service())
    created = build_token_secret(identity, "t")
    assert created["data"] == {"token": base64.b64encode(b"t").decode()}
    applied = build_config_secret(identity, "{}")
    assert list(applied["data"]) == ["bootstrap.yaml"]
    assert read_token(DataObject(identity.metadata, created["data"])) == "t"


@pytest.mark.parametrize("data", [{}, {"token": "%%%"}, {"token": ""}])
def test_secret_without_a_token_has_none(data: dict[str, str]) -> None:
    assert read_token(DataObject(service().metadata, data)) == ""
    assert read_token(None) == ""


def test_monitors_read_gateways_and_every_group_with_metrics() -> None:
    found = service(
        {"name": "a", "image": "i"},
        {"name": "b", "image": "i", "ports": {"metrics": 0}},
        {"name": "c", "image": "i", "ports": {"metrics": 8000}},
        monitoring={"scrapeInterval": "9s"},
    )
    identity = identity_of(found)
    [endpoint] = build_pod_monitor(identity, found.spec)["spec"]["podMetricsEndpoints"]
    assert (endpoint["port"], endpoint["path"]) == ("stats", "/stats/prometheus")
    assert endpoint["interval"] == "9s"
    assert endpoint["relabelings"][0]["replacement"] == "web"
    monitors = list(build_service_monitors(identity, found.spec))
    assert [
        (each["metadata"]["name"], each["spec"]["endpoints"][0]["port"]) for each in monitors
    ] == [("web-a-servers", "metrics"), ("web-c-servers", "http")]
