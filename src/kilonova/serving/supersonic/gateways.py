"""Gateway, access and limits: from `envoy`."""

import re
from urllib.parse import urlsplit

from kilonova.serving.supersonic.findings import Findings
from kilonova.serving.supersonic.keys.envoy import POLICIES
from kilonova.serving.supersonic.labels import build_pod_labels
from kilonova.serving.supersonic.loads import Load
from kilonova.serving.supersonic.servers import normalise_resources
from kilonova.serving.supersonic.value_types import is_port
from kilonova.serving.supersonic.values import Tree, Values

OLDEST_ENVOY = 40
"""The minor version that the configuration is tested with: 1.40."""
_OFFICIAL_IMAGE = re.compile(r"(?:docker\.io/)?envoyproxy/envoy:(?:distroless-)?v1\.(\d+)\D.*")
_LIMITER = "envoy.rate_limiter.prometheus_based"
_EXTERNAL = "envoy.external_config"


def build_gateway(values: Values, name: str, findings: Findings) -> Tree:
    """The gateway, without limits."""
    gateway: Tree = {
        "replicas": values.whole("envoy.replicas"),
        "timeout": values.text("envoy.grpc_route_timeout"),
        "loadBalancing": _build_load_balancing(values, findings),
        "service": _build_service(values),
        **_build_ports(values, findings),
    }
    if image := _choose_image(values, findings):
        gateway["image"] = image
    if resources := values.object("envoy.resources"):
        gateway["resources"] = normalise_resources(resources)
    gateway["pods"] = _build_pods(values, name)
    if values.flag("envoy.ingress.enabled"):
        gateway["ingress"] = build_ingress(values, "envoy.ingress", findings)
    if tracing := _build_tracing(values, findings):
        gateway["tracing"] = tracing
    if values.flag(f"{_EXTERNAL}.load_from_configmap"):
        gateway["staticConfig"] = _build_static_config(values, findings)
    return gateway


def build_auth(values: Values, findings: Findings) -> Tree | None:
    """Who may use the instance; None for anyone."""
    if not values.flag("envoy.auth.enabled"):
        return None
    if values.flag(f"{_EXTERNAL}.load_from_configmap"):
        findings.refuse(
            "envoy.auth.enabled",
            f"has no effect beside {_EXTERNAL}, which replaces the whole configuration: check "
            "tokens there, and set envoy.auth.enabled: false",
        )
    for key in ("jwt_issuer", "jwt_remote_jwks_uri"):
        if not values.text(f"envoy.auth.{key}"):
            findings.refuse(f"envoy.auth.{key}", "is required with envoy.auth.enabled: true")
    uri = values.text("envoy.auth.jwt_remote_jwks_uri")
    if uri and not _find_port(uri):
        findings.refuse("envoy.auth.jwt_remote_jwks_uri", f"{uri!r} is invalid: write https://…")
    host = values.text("envoy.auth.url")
    if host and host not in (urlsplit(uri).hostname, urlsplit(uri).netloc):
        findings.warn("envoy.auth.url", f"without effect: keys are read from {uri}")
    if values.has("envoy.auth.port") and values.whole("envoy.auth.port") != _find_port(uri):
        findings.warn("envoy.auth.port", f"without effect: keys are read from {uri}")
    provider: Tree = {
        "name": "tokens",
        "issuer": values.text("envoy.auth.jwt_issuer"),
        "jwksUri": uri,
    }
    if audiences := values.texts("envoy.auth.audiences"):
        provider["audiences"] = audiences
    return {"jwt": [provider]}


def build_limits(values: Values, load: Load, findings: Findings) -> Tree:
    """Limits of connections, and the admission of jobs."""
    limits: Tree = {}
    level = "envoy.rate_limiter.listener_level"
    if values.flag(f"{level}.enabled"):
        limits["connectionRate"] = {
            "burst": values.whole(f"{level}.max_tokens"),
            "perFill": values.whole(f"{level}.tokens_per_fill"),
            "fillInterval": values.text(f"{level}.fill_interval"),
        }
    if values.is_set("envoy.rate_limiter.max_connections"):
        limits["connections"] = values.whole("envoy.rate_limiter.max_connections")
    if values.flag(f"{_LIMITER}.enabled"):
        if values.flag(f"{_EXTERNAL}.load_from_configmap"):
            findings.warn(
                f"{_LIMITER}.enabled",
                f"without effect: {_EXTERNAL} replaces the whole configuration of Envoy",
            )
        limits["load"] = {**load.build_limit(), "jobAdmission": True}
    return limits


def build_ingress(values: Values, path: str, findings: Findings) -> Tree:
    """One host, be it `hostName` or the only one of `hosts`."""
    hosts = values.texts(f"{path}.hosts")
    host = values.text(f"{path}.hostName") or (hosts[0] if hosts else "")
    if not host:
        findings.refuse(f"{path}.hostName", "is required with enabled: true: write the host")
    if others := [each for each in hosts if each != host]:
        findings.refuse(
            f"{path}.hosts", f"an Ingress has one host here: leave out {', '.join(others)}"
        )
    ingress: Tree = {"host": host}
    if class_name := values.text(f"{path}.ingressClassName"):
        ingress["ingressClassName"] = class_name
    if annotations := values.map(f"{path}.annotations"):
        ingress["annotations"] = annotations
    secrets = [
        each["secretName"] for each in values.objects(f"{path}.tls") if each.get("secretName")
    ]
    if secrets:
        ingress["tlsSecret"] = secrets[0]
    return ingress


def _find_port(url: str) -> int:
    """The port of a URL of HTTP; 0 for anything else."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return 0
    default = {"http": 80, "https": 443}.get(parts.scheme, 0) if parts.hostname else 0
    return port or default if default else 0


def _choose_image(values: Values, findings: Findings) -> str:
    """None for that of the installation."""
    if not values.has("envoy.image"):
        return ""
    image = values.text("envoy.image")
    official = _OFFICIAL_IMAGE.fullmatch(f"{image} ")
    if official is None or int(official[1]) >= OLDEST_ENVOY:
        return image
    findings.warn(
        "envoy.image",
        f"{image} is older than 1.{OLDEST_ENVOY}, which the configuration is made for: the image "
        "of the installation is used",
    )
    return ""


def _build_load_balancing(values: Values, findings: Findings) -> Tree:
    policy = POLICIES[values.text("envoy.loadBalancerPolicy")]
    if policy not in ("RingHash", "Maglev"):
        return {"policy": policy}
    findings.warn(
        "envoy.loadBalancerPolicy",
        "the address of the client is hashed; in SuperSONIC nothing is, so that servers are chosen "
        "at random",
    )
    return {"policy": policy, "hash": [{"source": "ClientAddress"}]}


def _build_service(values: Values) -> Tree:
    service: Tree = {"type": values.text("envoy.service.type")}
    for field in ("labels", "annotations"):
        if found := values.map(f"envoy.service.{field}"):
            service[field] = found
    return service


def _build_ports(values: Values, findings: Findings) -> Tree:
    key = "envoy.service.ports"
    fields = {"grpc": "grpcPort", "http": "httpPort"}
    found: Tree = {}
    for each in values.objects(key):
        name, port = str(each.get("name")), each.get("port")
        if "nodePort" in each:
            findings.refuse(key, f"{name}: a fixed nodePort is not supported: leave it out")
        if name in fields:
            if not is_port(port):
                findings.refuse(key, f"{name}: port {port!r} is invalid: write 1…65535")
            else:
                found[fields[name]] = port
        elif name == "admin":
            if values.has(key):
                findings.warn(key, "admin is not exposed: metrics are on port 8002 of the pods")
        else:
            findings.refuse(key, f"{name}: unknown port: choose from grpc, http")
    if "grpcPort" not in found:
        findings.refuse(key, "grpc is missing: write {name: grpc, port: 8001}")
    return found


def _build_pods(values: Values, name: str) -> Tree:
    pods: Tree = {"labels": build_pod_labels(name, "envoy")}
    if annotations := values.map("envoy.annotations"):
        pods["annotations"] = annotations
    if selector := values.map("envoy.nodeSelector"):
        pods["nodeSelector"] = selector
    if tolerations := values.objects("envoy.tolerations"):
        pods["tolerations"] = tolerations
    return pods


def _build_tracing(values: Values, findings: Findings) -> Tree | None:
    endpoint = values.text("kilonova.tracing.endpoint")
    for section in ("opentelemetry-collector", "tempo"):
        enabled = f"{section}.enabled"
        if values.flag(enabled) and endpoint:
            findings.warn(enabled, f"none is installed: traces go to {endpoint}")
        elif values.flag(enabled):
            findings.refuse(
                enabled,
                "none is installed: set kilonova.tracing.endpoint to HOST:PORT of a collector or "
                "of your Tempo (OTLP over gRPC), or enabled: false for no traces",
            )
    if not endpoint:
        return None
    rate = values.number("envoy.tracing_sampling_rate")
    if rate > 1:
        findings.refuse("envoy.tracing_sampling_rate", f"{rate:g} is invalid: write 0…1")
    return {"endpoint": endpoint, "samplingPercent": round(rate * 100, 6)}


def _build_static_config(values: Values, findings: Findings) -> Tree:
    name = values.text(f"{_EXTERNAL}.configmap_name")
    if not name:
        findings.refuse(f"{_EXTERNAL}.configmap_name", "is required with load_from_configmap: true")
    config: Tree = {"name": name}
    if key := values.text(f"{_EXTERNAL}.configmap_key"):
        config["key"] = key
    return config
