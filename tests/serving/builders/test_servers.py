"""Servers: what their pods run, by runtime, fields and template."""

from typing import Any

import pytest

from kilonova.serving.builders.server_set import build_server_deployment, get_initial_replicas
from kilonova.serving.settings import ServingSettings
from tests.serving.builders.objects import (
    LOCAL,
    SETTINGS,
    build_set,
    container_of,
    identity_of,
    parse_group,
    pod_of,
    service,
)

TRITON: Any = {"name": "model", "runtime": "Triton"}
SERVER: Any = {"name": "model", "runtime": "ModelServer"}
CUSTOM: Any = {"name": "model", "image": "vllm:1", "protocol": "OpenAI", "ports": {"grpc": 0}}


def test_triton_has_its_image_command_and_ports() -> None:
    container = container_of({**TRITON, "modelRepository": {"nfs": {"server": "n", "path": "/m"}}})
    assert container["image"] == "triton:1"
    assert container["command"] == ["tritonserver"]
    assert container["args"] == [
        "--model-repository=/models",
        "--http-port=8000",
        "--grpc-port=8001",
        "--metrics-port=8002",
        "--exit-timeout-secs=61",
    ]
    assert [(each["name"], each["containerPort"]) for each in container["ports"]] == [
        ("http", 8000),
        ("grpc", 8001),
        ("metrics", 8002),
    ]
    assert container["volumeMounts"][0]["mountPath"] == "/models"


def test_triton_without_a_port_does_not_serve_it() -> None:
    args = container_of({**TRITON, "ports": {"grpc": 0}})["args"]
    assert "--allow-grpc=false" in args
    assert not any(each.startswith("--grpc-port") for each in args)


def test_managed_models_are_loaded_explicitly() -> None:
    placement = {"models": [{"name": "a"}]}
    assert (
        "--model-control-mode=explicit"
        in container_of({**TRITON, "modelPlacement": placement})["args"]
    )
    repository = {"nfs": {"server": "n", "path": "/m"}, "mountPath": "/repo"}
    args = container_of({**SERVER, "modelRepository": repository, "modelPlacement": placement})
    assert "--model-control=explicit" in args["args"]
    assert "--model-repository=/repo" in args["args"]


def test_model_server_is_our_own_command() -> None:
    container = container_of({**SERVER, "args": ["--llm", "demo"]})
    assert container["image"] == "kilonova:1"
    assert container["command"] == ["kilonova", "serve-model"]
    assert container["args"] == [
        "--host=0.0.0.0",
        "--http-port=8000",
        "--grpc-port=8001",
        "--metrics-port=8002",
        "--drain-timeout=60",
        "--llm",
        "demo",
    ]


def test_servers_send_traces_where_the_gateway_does() -> None:
    tracing = {"tracing": {"endpoint": "http://otel:4317", "samplingPercent": 100}}
    container = container_of(SERVER, gateway=tracing)
    assert "--otlp-endpoint=otel:4317" in container["args"]
    assert container["env"] == [{"name": "OTEL_SERVICE_NAME", "value": "web-model"}]
    args = container_of(TRITON, gateway=tracing)["args"]
    assert [each for each in args if each.startswith("--trace-config")] == [
        "--trace-config=mode=opentelemetry",
        "--trace-config=level=TIMESTAMPS",
        "--trace-config=rate=0",
        "--trace-config=opentelemetry,url=http://otel:4318/v1/traces",
        "--trace-config=opentelemetry,resource=service.name=web-model",
    ]


def test_collector_may_have_another_address_for_http() -> None:
    tracing = {"endpoint": "otel", "httpEndpoint": "other:9000"}
    args = container_of(TRITON, gateway={"tracing": tracing})["args"]
    assert "--trace-config=opentelemetry,url=http://other:9000/v1/traces" in args
    args = container_of(SERVER, gateway={"tracing": tracing})["args"]
    assert "--otlp-endpoint=otel:4317" in args


def test_arguments_of_a_group_decide_where_its_traces_go() -> None:
    tracing = {"tracing": {"endpoint": "otel:4317"}}
    own = ["--trace-config=mode=triton", "--trace-config", "triton,file=/tmp/trace.json"]
    args = container_of({**TRITON, "args": own}, gateway=tracing)["args"]
    assert [each for each in args if "trace" in each] == own
    own = ["--otlp-endpoint", "mine:4317"]
    args = container_of({**SERVER, "args": own}, gateway=tracing)["args"]
    assert [each for each in args if "otlp" in each or "4317" in each] == own


def test_template_keeps_the_name_of_servers_in_traces() -> None:
    template = {"spec": {"containers": [{"name": "main", "env": [{"name": "A", "value": "1"}]}]}}
    container = container_of(
        {**SERVER, "template": template}, gateway={"tracing": {"endpoint": "otel:4317"}}
    )
    assert [each["name"] for each in container["env"]] == ["OTEL_SERVICE_NAME", "A"]


def test_fields_of_a_group_override_the_runtime_and_the_template() -> None:
    template = {
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "other:1",
                    "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}],
                },
                {"name": "sidecar", "image": "s:1"},
            ],
            "nodeSelector": {"pool": "gpu"},
        }
    }
    group = {
        **TRITON,
        "template": template,
        "image": "mine:2",
        "command": ["sh", "-c"],
        "args": ["run"],
        "env": [{"name": "B", "value": "2"}],
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    }
    pod = pod_of(group)
    first, second = pod["containers"]
    assert (first["name"], first["image"]) == ("main", "mine:2")
    assert (first["command"], first["args"]) == (["sh", "-c"], ["run"])
    assert first["env"] == [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    assert first["resources"] == {"limits": {"nvidia.com/gpu": 1}}
    assert first["readinessProbe"]["httpGet"]["path"] == "/v2/health/ready"
    assert second == {"name": "sidecar", "image": "s:1"}
    assert pod["nodeSelector"] == {"pool": "gpu"}


@pytest.mark.parametrize(
    ("fields", "gateway", "check"),
    [
        ({}, {}, {"httpGet": {"path": "/v2/health/ready", "port": 8000}}),
        ({"protocol": "OpenAI"}, {}, {"httpGet": {"path": "/health", "port": 8000}}),
        ({"ports": {"http": 0}}, {}, {"grpc": {"port": 8001}}),
        ({"ports": {"http": 0}}, {"disabled": True}, {"tcpSocket": {"port": 8001}}),
        ({}, {"path": "/ok"}, {"httpGet": {"path": "/ok", "port": 8000}}),
        ({"protocol": "HTTP"}, {}, {"tcpSocket": {"port": 8000}}),
        ({"protocol": "HTTP"}, {"path": "/ok"}, {"httpGet": {"path": "/ok", "port": 8000}}),
    ],
)
def test_readiness_is_that_of_the_protocol(fields: Any, gateway: Any, check: Any) -> None:
    container = container_of({**TRITON, **fields}, gateway={"healthCheck": gateway})
    for probe in ("startupProbe", "readinessProbe"):
        assert {key: container[probe][key] for key in check} == check


@pytest.mark.parametrize(
    ("group", "delay", "grace"),
    [
        # It finishes its requests after SIGTERM; of another server that is not known.
        (TRITON, 3, 65),
        ({**CUSTOM, "drain": "10s"}, 10, 15),
        ({**TRITON, "drain": "1s"}, 1, 6),
        ({**TRITON, "drain": "1.5s"}, 2, 7),
    ],
)
def test_removed_server_gets_sigterm_when_no_gateway_uses_it(
    group: Any, delay: int, grace: int
) -> None:
    pod = pod_of(group)
    assert pod["terminationGracePeriodSeconds"] == grace
    assert pod["containers"][0]["lifecycle"] == {"preStop": {"sleep": {"seconds": delay}}}


def test_server_without_drain_gets_sigterm_at_once() -> None:
    assert "lifecycle" not in container_of({**TRITON, "drain": "0s"})


def test_model_server_drains_by_itself() -> None:
    pod = pod_of({**SERVER, "drain": "120s"})
    [container] = pod["containers"]
    assert "lifecycle" not in container
    assert "--drain-timeout=120" in container["args"]
    assert not any(each.startswith("--drain-delay") for each in container["args"])
    assert "--drain-delay=1" in container_of(SERVER, LOCAL)["args"]
    assert pod["terminationGracePeriodSeconds"] == 125


def test_server_of_the_user_keeps_what_its_template_says_of_its_end() -> None:
    hook = {"preStop": {"exec": {"command": ["drain"]}}}
    spec = {"containers": [{"lifecycle": hook}], "terminationGracePeriodSeconds": 7}
    pod = pod_of({**TRITON, "template": {"spec": spec}})
    assert pod["terminationGracePeriodSeconds"] == 7
    assert pod["containers"][0]["lifecycle"] == hook


def test_set_carries_queue_priority_and_workload() -> None:
    built = build_set({**TRITON, "queue": "prod", "priorityClassName": "high"})
    assert built["metadata"]["name"] == "web-model"
    assert built["metadata"]["labels"] == {
        "serving.kilonova.dev/server": "model",
        "serving.kilonova.dev/inference-service": "web",
        "scheduling.kilonova.dev/queue": "prod",
        "kilonova.dev/workload": "InferenceService.serving.kilonova.dev_web",
        "app.kubernetes.io/managed-by": "kilonova-serving",
    }
    [owner] = built["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("InferenceService", "u-1", True)
    template = built["spec"]["template"]
    assert template["priorityClassName"] == "high"
    [clique] = template["cliques"]
    assert clique["labels"] == {
        "serving.kilonova.dev/inference-service": "web",
        "serving.kilonova.dev/role": "server",
        "serving.kilonova.dev/server": "model",
        "serving.kilonova.dev/entry": "true",
        "scheduling.kilonova.dev/queue": "prod",
    }


def test_template_of_several_pods_is_kept_and_labelled() -> None:
    worker = {"containers": [{"name": "w", "image": "i", "env": []}], "volumes": []}
    template = {
        "cliques": [
            {
                "name": "head",
                "labels": {"mine": "yes"},
                "spec": {"replicas": 1, "podSpec": {"containers": [{"name": "h", "image": "i"}]}},
            },
            {"name": "worker", "spec": {"replicas": 3, "podSpec": worker}},
        ],
        "topologyConstraint": {"packDomain": "rack"},
    }
    built = build_set({**CUSTOM, "podCliqueSetTemplate": template, "entryClique": "head"})
    found = built["spec"]["template"]
    assert found["topologyConstraint"] == {"packDomain": "rack"}
    head, rest = found["cliques"]
    assert head["labels"]["mine"] == "yes"
    assert head["labels"]["serving.kilonova.dev/entry"] == "true"
    assert "serving.kilonova.dev/entry" not in rest["labels"]
    assert rest["spec"]["replicas"] == 3
    pod = rest["spec"]["podSpec"]
    assert pod["schedulerName"] == "kilonova-scheduler"
    assert pod["containers"][0]["env"] == []
    assert pod["volumes"] == []


def test_deployment_has_servers_where_there_are_no_sets() -> None:
    found = service(TRITON)
    [group] = found.spec.servers
    settings = ServingSettings(namespace="team", scheduler_name="default-scheduler")
    built = build_server_deployment(identity_of(found), group, found.spec.gateway, 2, settings)
    assert built["spec"]["replicas"] == 2
    labels = built["spec"]["template"]["metadata"]["labels"]
    assert built["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert labels["serving.kilonova.dev/entry"] == "true"


@pytest.mark.parametrize(
    ("fields", "replicas"),
    [
        ({}, 1),
        ({"replicas": 0}, 0),
        ({"replicas": 7}, 7),
        ({"autoscaling": {"maxReplicas": 3, "minReplicas": 0}}, 1),
        ({"replicas": 0, "autoscaling": {"maxReplicas": 3, "minReplicas": 0}}, 0),
        ({"replicas": 0, "autoscaling": {"maxReplicas": 3, "minReplicas": 2}}, 2),
        ({"replicas": 9, "autoscaling": {"maxReplicas": 3}}, 3),
    ],
)
def test_number_of_servers_to_start_with(fields: Any, replicas: int) -> None:
    assert get_initial_replicas(parse_group(**fields)) == replicas


@pytest.mark.parametrize(
    ("settings", "spec", "selector"),
    [
        (SETTINGS, {}, None),
        (LOCAL, {}, {"kilonova.dev/node-kind": "process"}),
        (LOCAL, {"nodeSelector": {"a": "b"}}, {"a": "b"}),
        (LOCAL, {"affinity": {"nodeAffinity": {"x": []}}}, None),
        (LOCAL, {"affinity": {"podAffinity": {}}}, {"kilonova.dev/node-kind": "process"}),
    ],
)
def test_servers_on_this_machine_run_where_processes_run(
    settings: ServingSettings, spec: Any, selector: Any
) -> None:
    pod = pod_of({**SERVER, "template": {"spec": spec}}, settings)
    assert pod.get("nodeSelector") == selector


def test_downloads_come_before_the_init_containers_of_the_user() -> None:
    repository = {"objectStore": {"url": "s3://models/prod"}}
    spec = {"initContainers": [{"name": "mine", "image": "i"}]}
    pod = pod_of({**TRITON, "modelRepository": repository, "template": {"spec": spec}})
    assert [each["name"] for each in pod["initContainers"]] == ["download-models", "mine"]
    assert pod["initContainers"][0]["image"] == "kilonova:1"
