"""What the container of a server runs, by its runtime: image, command, ports, probes. Pure."""

from collections.abc import Iterator

from kilonova.api.json import JsonObject
from kilonova.api.serving import DEFAULT_MOUNT_PATH, Gateway, Protocol, ServerGroup
from kilonova.serving.builders.lifecycle import (
    get_server_delay,
    get_server_grace,
    parse_seconds,
)
from kilonova.serving.gateway.collector import build_http_url, format_grpc_target
from kilonova.serving.settings import ServingSettings

_READY_PATHS: dict[Protocol, str] = {"V2": "/v2/health/ready", "OpenAI": "/health"}
"""By protocol. Of any other HTTP server no path is known."""
_SERVICE_VARIABLE = "OTEL_SERVICE_NAME"
"""OpenTelemetry's variable for the name of a process in traces."""
_V2_LIVE_PATH = "/v2/health/live"
_DRAIN_DELAY_ON_THIS_MACHINE = 1
"""Seconds in which ModelServer goes on after SIGTERM."""
_START_SECONDS = 3600
"""How long a server may take to load its models before it is restarted."""


def build_runtime_container(
    group: ServerGroup, gateway: Gateway, settings: ServingSettings, service: str
) -> JsonObject:
    """The container as the runtime has it, before the fields of the group and its template.
    `service` is the name of the servers in traces."""
    return {
        **_build_command(group, gateway, settings, service),
        "ports": [
            {"name": name, "containerPort": port, "protocol": "TCP"}
            for name, port in list_ports(group)
        ],
        **_build_probes(group, gateway),
    }


def list_ports(group: ServerGroup) -> Iterator[tuple[str, int]]:
    """The names and numbers of the ports that a server has; each number once."""
    ports, seen = group.ports, set[int]()
    for name, port in (("http", ports.http), ("grpc", ports.grpc), ("metrics", ports.metrics)):
        if port and port not in seen:
            seen.add(port)
            yield name, port


def _build_command(
    group: ServerGroup, gateway: Gateway, settings: ServingSettings, service: str
) -> JsonObject:
    match group.runtime:
        case "ModelServer":
            return {
                "image": settings.model_server_image,
                "command": ["kilonova", "serve-model"],
                "args": [*_list_model_server_args(group, gateway, settings)],
                **_build_span_source(gateway, service),
            }
        case "Triton":
            return {
                "image": settings.triton_image,
                "command": ["tritonserver"],
                "args": [*_list_triton_args(group, gateway, service)],
            }
        case "Custom":
            return {}


def _list_model_server_args(
    group: ServerGroup, gateway: Gateway, settings: ServingSettings
) -> Iterator[str]:
    ports, repository = group.ports, group.model_repository
    yield "--host=0.0.0.0"
    yield f"--http-port={ports.http}"
    yield f"--grpc-port={ports.grpc}"
    yield f"--metrics-port={ports.metrics}"
    if settings.on_this_machine:
        # Gateways of this machine know at once.
        yield f"--drain-delay={_DRAIN_DELAY_ON_THIS_MACHINE}"
    yield f"--drain-timeout={parse_seconds(group.drain)}"
    if repository is not None:
        yield f"--model-repository={repository.mount_path}"
        yield f"--model-control={'explicit' if _has_managed_models(group) else 'all'}"
    if gateway.tracing is not None and not _has_flag(group, "--otlp-endpoint"):
        yield f"--otlp-endpoint={format_grpc_target(gateway.tracing)}"


def _list_triton_args(group: ServerGroup, gateway: Gateway, service: str) -> Iterator[str]:
    repository = group.model_repository
    yield f"--model-repository={repository.mount_path if repository else DEFAULT_MOUNT_PATH}"
    ports = group.ports
    for protocol, port in (("http", ports.http), ("grpc", ports.grpc), ("metrics", ports.metrics)):
        yield f"--{protocol}-port={port}" if port else f"--allow-{protocol}=false"
    if _has_managed_models(group):
        yield "--model-control-mode=explicit"
    if gateway.tracing is not None and not _has_flag(group, "--trace-config"):
        for each in (
            "mode=opentelemetry",
            "level=TIMESTAMPS",
            # Those that the gateway traces, and no others: it sends a trace context with these
            # alone.
            "rate=0",
            f"opentelemetry,url={build_http_url(gateway.tracing)}",
            f"opentelemetry,resource=service.name={service}",
        ):
            yield f"--trace-config={each}"
    # It finishes its requests within what is left of the drain.
    yield f"--exit-timeout-secs={max(1, get_server_grace(group) - get_server_delay(group) - 1)}"


def _has_flag(group: ServerGroup, flag: str) -> bool:
    """Whether the group's own arguments decide it."""
    return any(each.partition("=")[0] == flag for each in group.args)


def _build_span_source(gateway: Gateway, service: str) -> JsonObject:
    if gateway.tracing is None:
        return {}
    return {"env": [{"name": _SERVICE_VARIABLE, "value": service}]}


def _has_managed_models(group: ServerGroup) -> bool:
    return group.model_placement is not None and bool(group.model_placement.models)


def _build_probes(group: ServerGroup, gateway: Gateway) -> JsonObject:
    ready = _build_ready_check(group, gateway)
    probes: JsonObject = {
        # Until it has succeeded, no other probe runs: loading models may take long.
        "startupProbe": {**ready, "periodSeconds": 1, "failureThreshold": _START_SECONDS},
        "readinessProbe": {**ready, "periodSeconds": 2, "failureThreshold": 2, "timeoutSeconds": 2},
    }
    if group.runtime != "Custom" and group.protocol == "V2" and group.ports.http:
        probes["livenessProbe"] = {
            "httpGet": {"path": _V2_LIVE_PATH, "port": group.ports.http},
            "periodSeconds": 10,
            "failureThreshold": 6,
            "timeoutSeconds": 5,
        }
    return probes


def _build_ready_check(group: ServerGroup, gateway: Gateway) -> JsonObject:
    """The check that the gateway makes of a server, too; a port that is open, where there is
    none."""
    check, ports = gateway.health_check, group.ports
    path = check.path or _READY_PATHS.get(group.protocol, "")
    if ports.http and path:
        return {"httpGet": {"path": path, "port": ports.http}}
    if not ports.http and not check.disabled:
        return {"grpc": {"port": ports.grpc}}
    return {"tcpSocket": {"port": ports.http or ports.grpc}}
