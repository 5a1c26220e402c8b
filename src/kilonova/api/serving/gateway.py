"""The gateway of an InferenceService: Envoy, routes, balancing."""

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from kilonova.api.serving.common import (
    ConfigMapKey,
    Count,
    DnsLabel,
    Duration,
    ModelName,
    PositiveInt,
    Weight,
)
from kilonova.api.serving.servers import Port, ResourceRequirements
from kilonova.api.validation_rules import ValidationRule

DEFAULT_HTTP_PORT = 8000
DEFAULT_GRPC_PORT = 8001
STATS_PORT = 8002
"""Where gateways serve metrics and readiness, and nothing else of Envoy's administration."""

BalancingPolicy = Literal["LeastRequest", "RoundRobin", "Random", "RingHash", "Maglev"]
HashSource = Literal["ClientAddress", "Header", "Cookie", "Model", "PromptPrefix"]
Tolerations = Annotated[
    tuple[dict[str, Any], ...],
    Meta(extra={"kubernetes items": "io.k8s.api.core.v1.Toleration", "list": "atomic"}),
]
ServiceType = Literal["ClusterIP", "NodePort", "LoadBalancer"]


class RouteBackend(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A group of servers, and its share of the requests."""

    server: DnsLabel
    """The name of the group."""
    weight: Annotated[Weight, Meta(extra={"default": 1})] = 1
    """Its share, relative to the other groups of the route; 0 for none."""


class HeaderMatch(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A header that a request must have."""

    name: Annotated[str, Meta(min_length=1, max_length=256)]
    """The name of the header."""
    value: Annotated[str, Meta(max_length=4096)] = ""
    """Its exact value; empty for any."""


class Route(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Which groups get which requests. The first route that matches is used."""

    RULES: ClassVar = (
        ValidationRule(
            "self.backends.exists(each, !has(each.weight) || each.weight > 0)",
            "at least one backend needs a weight above 0",
            field_path=".backends",
        ),
    )

    backends: Annotated[
        tuple[RouteBackend, ...],
        Meta(min_length=1, max_length=32, extra={"list": "map", "keys": ["server"]}),
    ]
    """The groups. Several of them split the requests by weight, as for a canary."""
    models: Annotated[tuple[ModelName, ...], Meta(max_length=256)] = ()
    """The models; empty for any. The name in a request of v2 (gRPC and HTTP) or OpenAI counts."""
    headers: Annotated[tuple[HeaderMatch, ...], Meta(max_length=16)] = ()
    """Headers that requests must have."""
    timeout: Duration | None = None
    """The time for a response. Defaults to that of the gateway."""


class HashKey(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """What is hashed to choose the same server for the same key: sessions and prefixes."""

    RULES: ClassVar = (
        ValidationRule(
            "self.source in ['Header', 'Cookie'] ? (has(self.name) && self.name != '') : true",
            "name the header or cookie",
            field_path=".name",
            reason="FieldValueRequired",
        ),
    )

    source: HashSource
    """Where the key is. PromptPrefix is the beginning of the prompt of an OpenAI request."""
    name: Annotated[str, Meta(max_length=256)] = ""
    """The name of the header or cookie."""
    ttl: Duration | None = None
    """For a cookie: the gateway sets one that lives so long, where a client has none."""
    prefix_length: Annotated[PositiveInt, Meta(extra={"default": 1024})] = 1024
    """For a prompt: how many bytes of it."""


class LoadBalancing(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """How a server is chosen, for each request."""

    RULES: ClassVar = (
        ValidationRule(
            "has(self.policy) && self.policy in ['RingHash', 'Maglev']"
            " ? (has(self.hash) && size(self.hash) > 0) : true",
            "RingHash and Maglev need a key: without one they choose at random",
            field_path=".hash",
            reason="FieldValueRequired",
        ),
    )

    policy: Annotated[BalancingPolicy, Meta(extra={"default": "LeastRequest"})] = "LeastRequest"
    """The policy of Envoy."""
    hash: Annotated[tuple[HashKey, ...], Meta(max_length=8)] = ()
    """The key of RingHash and Maglev: the first source that a request has."""
    hash_balance_factor: Annotated[
        int, Meta(ge=100, le=1000, extra={"format": "int32", "default": 150})
    ] = 150
    """With a key, how far above the average load (in percent) a server may be before another one is
    chosen."""


class Retries(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Requests that are sent to another server, because the first one was lost."""

    attempts: Annotated[Count, Meta(extra={"default": 2})] = 2
    """How often; 0 for never."""
    idempotent: Annotated[bool, Meta(extra={"default": True})] = True
    """Whether a request may be repeated that a server has begun to work on, as inference may be.
    Otherwise only those are repeated that did not reach a server."""


class OutlierDetection(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Servers that fail are left out for a while."""

    consecutive_errors: Annotated[PositiveInt, Meta(extra={"default": 3})] = 3
    """The failures in a row."""
    interval: Annotated[Duration, Meta(extra={"default": "1s"})] = "1s"
    """How often servers are judged."""
    base_ejection_time: Annotated[Duration, Meta(extra={"default": "5s"})] = "5s"
    """How long a server is left out, multiplied by how often that has happened."""
    max_ejection_percent: Annotated[
        int, Meta(ge=0, le=100, extra={"format": "int32", "default": 50})
    ] = 50
    """The percentage of servers that may be left out at the same time."""


class HealthCheck(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Checks of servers by the gateway, beside the readiness of their pods."""

    path: str = ""
    """The path. Defaults to that of the protocol: `/v2/health/ready`, or `/health`."""
    interval: Annotated[Duration, Meta(extra={"default": "5s"})] = "5s"
    """The time between two checks."""
    timeout: Annotated[Duration, Meta(extra={"default": "2s"})] = "2s"
    """The time for an answer."""
    unhealthy_threshold: Annotated[PositiveInt, Meta(extra={"default": 2})] = 2
    """The failures in a row after which a server gets no requests."""
    disabled: Annotated[bool, Meta(extra={"default": False})] = False
    """Whether readiness of pods alone counts."""


class GatewayService(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The Service of the gateway; its name is that of the InferenceService."""

    type: Annotated[ServiceType, Meta(extra={"default": "ClusterIP"})] = "ClusterIP"
    """The type of the Service."""
    annotations: dict[str, str] = {}
    """Annotations, such as those of a cloud's load balancer."""
    labels: dict[str, str] = {}
    """Labels of the Service."""


class GatewayIngress(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """An Ingress for gRPC and HTTP."""

    host: Annotated[str, Meta(min_length=1, max_length=253)]
    """The host name."""
    ingress_class_name: Annotated[str, Meta(max_length=253)] = ""
    """The class of the Ingress."""
    annotations: dict[str, str] = {}
    """Annotations of the Ingress."""
    tls_secret: Annotated[str, Meta(max_length=253)] = ""
    """A Secret with the certificate. Defaults to that of the Ingress controller."""


class GatewayTls(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """TLS of both ports of the gateway."""

    secret: Annotated[str, Meta(min_length=1, max_length=253)]
    """A Secret of the type kubernetes.io/tls; a renewed certificate is used at once."""
    client_ca_secret: Annotated[str, Meta(max_length=253)] = ""
    """A Secret with `ca.crt`: clients need a certificate of that authority (mTLS)."""


class Tracing(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Traces by OTLP, of the gateway and of servers that can send them."""

    endpoint: Annotated[str, Meta(min_length=1)]
    """The collector's gRPC endpoint: `HOST:PORT`."""
    http_endpoint: Annotated[str, Meta(max_length=1024)] = ""
    """Its endpoint for OTLP over HTTP, `HOST:PORT`, for servers that speak nothing else, such as
    Triton. Defaults to port 4318 of the same host."""
    sampling_percent: Annotated[
        float, Meta(ge=0, le=100, extra={"format": "double", "default": 1})
    ] = 1
    """The percentage of requests that are traced; a request that is already traced is followed."""


class GatewayPods(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The pods of the gateway."""

    labels: dict[str, str] = {}
    """Labels of the pods, beside ours."""
    annotations: dict[str, str] = {}
    """Annotations of the pods."""
    node_selector: dict[str, str] = {}
    """Labels that their nodes have."""
    tolerations: Tolerations = ()
    """Taints of nodes that they tolerate."""
    priority_class_name: Annotated[str, Meta(max_length=253)] = ""
    """The priority class of the pods."""


class Gateway(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Envoy in front of the servers."""

    replicas: Annotated[PositiveInt, Meta(extra={"default": 1})] = 1
    """The number of gateways."""
    image: Annotated[str, Meta(max_length=1024)] = ""
    """The image of Envoy. Defaults to that of the installation."""
    resources: ResourceRequirements | None = None
    """The resources of Envoy."""
    pods: GatewayPods = GatewayPods()
    http_port: Annotated[Port, Meta(extra={"default": DEFAULT_HTTP_PORT})] = DEFAULT_HTTP_PORT
    """The port for HTTP; 0 for none."""
    grpc_port: Annotated[Port, Meta(extra={"default": DEFAULT_GRPC_PORT})] = DEFAULT_GRPC_PORT
    """The port for gRPC; 0 for none. It may be that of HTTP: then both are served there."""
    service: GatewayService = GatewayService()
    ingress: GatewayIngress | None = None
    tls: GatewayTls | None = None
    timeout: Annotated[Duration, Meta(extra={"default": "0s"})] = "0s"
    """The time for a response; 0 for no limit."""
    idle_timeout: Annotated[Duration, Meta(extra={"default": "1h"})] = "1h"
    """After this time without a request a connection is closed."""
    load_balancing: LoadBalancing = LoadBalancing()
    slow_start: Annotated[Duration, Meta(extra={"default": "0s"})] = "0s"
    """How long a new server gets fewer requests than others; 0 for not at all."""
    retries: Retries = Retries()
    outlier_detection: OutlierDetection = OutlierDetection()
    health_check: HealthCheck = HealthCheck()
    access_log: Annotated[bool, Meta(extra={"default": False})] = False
    """Whether Envoy writes a line of JSON for each request to its standard output."""
    tracing: Tracing | None = None
    static_config: ConfigMapKey | None = None
    """A complete configuration of Envoy, by default under `envoy.yaml`, instead of ours; changes
    of the ConfigMap are followed."""


__all__ = [
    "DEFAULT_GRPC_PORT",
    "DEFAULT_HTTP_PORT",
    "STATS_PORT",
    "BalancingPolicy",
    "Gateway",
    "GatewayIngress",
    "GatewayPods",
    "GatewayService",
    "GatewayTls",
    "HashKey",
    "HashSource",
    "HeaderMatch",
    "HealthCheck",
    "LoadBalancing",
    "OutlierDetection",
    "Retries",
    "Route",
    "RouteBackend",
    "ServiceType",
    "Tracing",
]
