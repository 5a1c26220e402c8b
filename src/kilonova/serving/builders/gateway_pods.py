"""The Deployment of the gateways of a service: Envoy. Pure."""

from collections.abc import Iterator
from typing import cast

from kilonova.api.grove import names as grove_names
from kilonova.api.json import JsonObject
from kilonova.api.nodes.kinds import NODE_KIND_LABEL, PROCESS_NODE
from kilonova.api.quantity import quantity_from_json
from kilonova.api.serving import STATS_PORT, Gateway, InferenceServiceSpec, names
from kilonova.serving.builders.identity import Identity
from kilonova.serving.builders.lifecycle import (
    build_pre_stop,
    get_gateway_delay,
    get_gateway_grace,
)
from kilonova.serving.gateway.config import ADMIN_FOLDER, build_arguments
from kilonova.serving.settings import ServingSettings

CONFIG_FOLDER = "/etc/kilonova-gateway"
CONFIG_FILE = "bootstrap.yaml"
"""The key of the Secret, and the file."""

_ENVOY_USER = 101
"""The user `envoy` of Envoy's images."""
_DEFAULT_WORKERS = 2
_RESOURCES = {
    "requests": {"cpu": "100m", "memory": "128Mi"},
    "limits": {"memory": "1Gi"},
}
_FIRST_UNPRIVILEGED_PORT = 1024


def build_gateway_deployment(
    identity: Identity, spec: InferenceServiceSpec, config_hash: str, settings: ServingSettings
) -> JsonObject:
    """The Deployment; `config_hash` is that of what Envoy reads when it starts."""
    gateway, labels = spec.gateway, identity.build_pod_labels("gateway")
    name = names.build_gateway(identity.name)
    return {
        "metadata": identity.build_metadata(name, {names.ROLE: "gateway"}),
        "spec": {
            "replicas": gateway.replicas,
            "selector": {"matchLabels": labels},
            # A gateway is replaced when its successor is ready.
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1},
            },
            "template": {
                "metadata": {
                    "labels": {
                        **gateway.pods.labels,
                        **identity.workload_labels,
                        grove_names.NAME: name,
                        **labels,
                    },
                    "annotations": {
                        **gateway.pods.annotations,
                        **identity.workload_annotations,
                        names.CONFIG_HASH: config_hash,
                    },
                },
                "spec": _build_pod(identity, spec, labels, settings),
            },
        },
    }


def build_disruption_budget(identity: Identity, gateway: Gateway) -> JsonObject | None:
    """At most one gateway of several is disrupted at a time."""
    if gateway.replicas < 2:
        return None
    return {
        "metadata": identity.build_metadata(names.build_gateway(identity.name)),
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": identity.build_pod_labels("gateway")},
        },
    }


def list_gateway_ports(gateway: Gateway) -> Iterator[tuple[str, int]]:
    """The names and numbers of the ports that clients use; one if both protocols share it."""
    if gateway.http_port:
        yield "http", gateway.http_port
    if gateway.grpc_port and gateway.grpc_port != gateway.http_port:
        yield "grpc", gateway.grpc_port


def _build_pod(
    identity: Identity,
    spec: InferenceServiceSpec,
    labels: dict[str, str],
    settings: ServingSettings,
) -> JsonObject:
    gateway, local = spec.gateway, settings.on_this_machine
    pod: JsonObject = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": get_gateway_grace(spec, on_this_machine=local),
        "containers": [_build_container(spec, settings)],
        # Also of a single gateway: that another one is added must not replace it.
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": labels},
            }
        ],
        "volumes": [
            {"name": "config", "secret": {"secretName": names.build_gateway(identity.name)}},
            {"name": "run", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
        ],
    }
    if not local:
        pod["securityContext"] = _build_pod_security(gateway)
    if gateway.pods.node_selector:
        pod["nodeSelector"] = dict(gateway.pods.node_selector)
    elif local:
        pod["nodeSelector"] = {NODE_KIND_LABEL: PROCESS_NODE}
    if gateway.pods.tolerations:
        pod["tolerations"] = list(gateway.pods.tolerations)
    if gateway.pods.priority_class_name:
        pod["priorityClassName"] = gateway.pods.priority_class_name
    return pod


def _build_pod_security(gateway: Gateway) -> JsonObject:
    context: JsonObject = {
        "runAsNonRoot": True,
        "runAsUser": _ENVOY_USER,
        "runAsGroup": _ENVOY_USER,
        "fsGroup": _ENVOY_USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    if any(port < _FIRST_UNPRIVILEGED_PORT for _, port in list_gateway_ports(gateway)):
        # A safe sysctl of the pod's own network, instead of a capability.
        context["sysctls"] = [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}]
    return context


def _build_container(spec: InferenceServiceSpec, settings: ServingSettings) -> JsonObject:
    gateway = spec.gateway
    # A configuration of the user's need not serve statistics, nor readiness.
    port = STATS_PORT if gateway.static_config is None else _get_first_port(gateway)
    ready: JsonObject = {"httpGet": {"path": "/ready", "port": STATS_PORT}}
    if gateway.static_config is not None:
        ready = {"tcpSocket": {"port": port}}
    ports = [*list_gateway_ports(gateway)]
    if gateway.static_config is None:
        ports.append(("stats", STATS_PORT))
    delay = get_gateway_delay(spec, on_this_machine=settings.on_this_machine)
    container: JsonObject = {
        "name": names.GATEWAY_CONTAINER,
        "image": gateway.image or settings.gateway_image,
        "command": ["envoy"],
        "args": build_arguments(
            f"{CONFIG_FOLDER}/{CONFIG_FILE}", "$(POD_NAME)", _count_workers(gateway, settings)
        ),
        "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "ports": [
            {"name": name, "containerPort": number, "protocol": "TCP"} for name, number in ports
        ],
        "startupProbe": {**ready, "periodSeconds": 1, "failureThreshold": 120},
        "readinessProbe": {**ready, "periodSeconds": 5, "failureThreshold": 2},
        "resources": gateway.resources or _RESOURCES,
        "volumeMounts": [
            {"name": "config", "mountPath": CONFIG_FOLDER, "readOnly": True},
            {"name": "run", "mountPath": ADMIN_FOLDER},
        ],
        **build_pre_stop(delay),
    }
    if not settings.on_this_machine:
        container["securityContext"] = {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
    return container


def _count_workers(gateway: Gateway, settings: ServingSettings) -> int:
    """Threads: those that the CPU limit pays for."""
    if settings.on_this_machine:
        return 1
    limits = cast("JsonObject", (gateway.resources or {}).get("limits") or {})
    cpu = limits.get("cpu")
    return _DEFAULT_WORKERS if cpu is None else max(1, quantity_from_json(cpu).value)


def _get_first_port(gateway: Gateway) -> int:
    return next((port for _, port in list_gateway_ports(gateway)), STATS_PORT)
