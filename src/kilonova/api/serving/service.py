"""InferenceService: model servers, a gateway in front of them, and how many of them there are."""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from kilonova.api.meta import Condition, Metadata
from kilonova.api.serving.access import Auth, Limits
from kilonova.api.serving.common import Duration
from kilonova.api.serving.gateway import Gateway, Route
from kilonova.api.serving.servers import ServerGroup
from kilonova.api.times import Time
from kilonova.api.validation_rules import ValidationRule

GROUP = "serving.kilonova.dev"
VERSION = "v1alpha1"

CountOrZero = Annotated[int, Meta(extra={"format": "int32", "default": 0})]
RequiredCountOrZero = Annotated[CountOrZero, Meta(extra={"required": True})]
"""A count that is written whenever there is a status."""


class Monitoring(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Objects for monitoring systems."""

    service_monitors: Annotated[bool, Meta(extra={"default": False})] = False
    """Whether ServiceMonitors of the Prometheus operator are created."""
    scrape_interval: Annotated[Duration, Meta(extra={"default": "5s"})] = "5s"
    """How often Prometheus is to read the metrics."""
    dashboards: Annotated[bool, Meta(extra={"default": False})] = False
    """Whether a ConfigMap with Grafana's dashboards is created."""


class InferenceServiceSpec(
    msgspec.Struct, frozen=True, gc=False, rename="camel", kw_only=True, omit_defaults=True
):
    """Servers, gateway, and who may use them."""

    RULES: ClassVar = (
        ValidationRule(
            "!has(self.routes) || self.routes.all(route, route.backends.all(backend,"
            " self.servers.exists(group, group.name == backend.server)))",
            "a route names a group that servers does not have",
            field_path=".routes",
        ),
    )

    servers: Annotated[
        tuple[ServerGroup, ...],
        Meta(min_length=1, max_length=32, extra={"list": "map", "keys": ["name"]}),
    ]
    """The groups of servers."""
    routes: Annotated[tuple[Route, ...], Meta(max_length=256)] = ()
    """Which group gets which requests. Requests that no route matches go to the first group."""
    gateway: Gateway = Gateway()
    auth: Auth | None = None
    limits: Limits = Limits()
    monitoring: Monitoring = Monitoring()
    paused: Annotated[bool, Meta(extra={"default": False})] = False
    """Whether the number of servers stays as it is."""


class ModelStatus(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A model that servers of a group have."""

    name: str
    """Its name."""
    copies: RequiredCountOrZero = 0
    """The number of servers that have loaded it."""
    loading: CountOrZero = 0
    """The number of servers that are loading it."""
    message: str = ""
    """Why it could not be loaded."""


class ServerGroupStatus(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The state of a group of servers."""

    name: str
    """The name of the group."""
    desired: RequiredCountOrZero = 0
    """The number of servers that there are to be."""
    replicas: RequiredCountOrZero = 0
    """The number of servers that there are, without those that drain."""
    ready: RequiredCountOrZero = 0
    """The number of servers that get requests."""
    draining: CountOrZero = 0
    """The number of servers that finish their requests before they end."""
    updated: CountOrZero = 0
    """The number of servers of the current template."""
    models: tuple[ModelStatus, ...] = ()
    """The models that are managed."""
    message: str = ""
    """What it waits for."""


class GroupLoad(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """What gateways and servers measured lately of a group; what is unknown is left out."""

    in_flight: int | None = None
    """Requests that servers work on or that wait for one."""
    queued: int | None = None
    """Requests in the queues of servers."""
    held: int | None = None
    """Requests that are held by the gateway until a server is ready."""
    requests_per_second: Annotated[float, Meta(extra={"format": "double"})] | None = None
    """Requests that were answered."""
    errors_per_second: Annotated[float, Meta(extra={"format": "double"})] | None = None
    """Answers that indicate that a server or the gateway failed."""
    rejected_per_second: Annotated[float, Meta(extra={"format": "double"})] | None = None
    """Requests refused by a limit."""
    tokens_per_second: Annotated[float, Meta(extra={"format": "double"})] | None = None
    """Completion tokens of an LLM."""
    latency_p50: Annotated[float, Meta(extra={"format": "double"})] | None = None
    """Median latency at the gateway, in milliseconds, as are all times here."""
    latency_p95: Annotated[float, Meta(extra={"format": "double"})] | None = None
    """The 95th percentile."""
    latency_p99: Annotated[float, Meta(extra={"format": "double"})] | None = None
    """The 99th percentile."""
    queue_time: Annotated[float, Meta(extra={"format": "double"})] | None = None
    """Mean time in the queue of a server."""
    compute_time: Annotated[float, Meta(extra={"format": "double"})] | None = None
    """Mean time that a server computes."""
    time_to_first_token: Annotated[float, Meta(extra={"format": "double"})] | None = None
    """The 95th percentile."""


class ScalingStatus(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The last decision of the autoscaler about a group. Written by the autoscaler alone."""

    name: str
    """The name of the group."""
    desired: RequiredCountOrZero = 0
    """The number that was decided."""
    mode: str = ""
    """The mode that decided: Demand, Metric, SLA, Schedule, Held, Idle, Bounds, Paused; Fixed
    without autoscaling, External if another scaler decides."""
    message: str = ""
    """Why, with the figures."""
    load: GroupLoad = GroupLoad()
    """The load when the status was written."""
    decided_at: Time | None = None
    """When the number last changed."""


class TracedRequest(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A request that is traced, as a gateway saw it. Times are in milliseconds."""

    trace_id: str
    """The id of its trace, in hexadecimal."""
    time: Annotated[str, Meta(extra={"format": "date-time"})]
    """When it ended."""
    duration: Annotated[float, Meta(extra={"format": "double"})]
    """From its first byte to the last byte of its answer."""
    request: str = ""
    """What was asked for: `POST /v1/completions`, `gRPC ModelInfer`."""
    status: str = ""
    """The status of the answer: HTTP's, or the name of gRPC's; empty if there was none."""
    group: str = ""
    """The group of servers that answered."""
    model: str = ""
    """The model, if the gateway knows it."""
    first_byte: Annotated[float, Meta(extra={"format": "double"})] | None = None
    """Until the first byte of its answer."""
    server_time: Annotated[float, Meta(extra={"format": "double"})] | None = None
    """The time that a server took; the rest is that of the gateway, in which it may be held."""


class InferenceServiceStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The observed state of the service."""

    observed_generation: int | None = None
    """The generation that this status describes."""
    phase: str = ""
    """Pending, Ready, Idle (no server, by scale to zero), Degraded, or Failed."""
    url: str = ""
    """The address of the gateway for HTTP."""
    grpc_address: str = ""
    """The address of the gateway for gRPC: `HOST:PORT`."""
    service_address: str = ""
    """The address inside of the cluster: `NAME.NAMESPACE.svc.cluster.local`."""
    ready: RequiredCountOrZero = 0
    """The number of servers that get requests, of all groups."""
    replicas: RequiredCountOrZero = 0
    """The number of servers, of all groups."""
    gateways: RequiredCountOrZero = 0
    """The number of gateways that are ready."""
    servers: Annotated[
        tuple[ServerGroupStatus, ...], Meta(extra={"list": "map", "keys": ["name"]})
    ] = ()
    """The state of each group."""
    scaling: Annotated[
        tuple[ScalingStatus, ...], Meta(extra={"list": "map", "keys": ["name"]})
    ] = ()
    """The last decision about each group."""
    traces: tuple[TracedRequest, ...] = ()
    """Of the requests of the last ten minutes that are traced: the latest that failed, then the
    slowest. Written by the control plane."""
    conditions: tuple[Condition, ...] = ()
    """Ready, GatewayReady, ServersReady, ConfigurationAccepted."""


Phase = Literal["Pending", "Ready", "Idle", "Degraded", "Failed"]


class InferenceService(msgspec.Struct, gc=False):
    """Model servers behind one address: placed as gangs, scaled by load, down to zero."""

    metadata: Metadata
    spec: InferenceServiceSpec
    status: InferenceServiceStatus = InferenceServiceStatus()
