"""What a gateway is configured from, beside the InferenceService. Plain values."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

ServiceKey = tuple[str, str]
"""Namespace and name of an InferenceService."""


class EndpointState(StrEnum):
    """Whether an endpoint gets requests."""

    READY = "ready"
    DRAINING = "draining"
    """It finishes its requests, and gets no further ones."""


@dataclass(frozen=True, slots=True, order=True)
class Endpoint:
    """The entry pod of a server, with its ports (0 for one that it lacks)."""

    pod: str
    """The name of the pod."""
    address: str
    """The IP address of the pod."""
    http_port: int = 0
    grpc_port: int = 0
    metrics_port: int = 0
    state: EndpointState = EndpointState.READY
    models: frozenset[str] | None = None
    """The models that it has loaded, if models are placed over servers; None for all."""


@dataclass(frozen=True, slots=True)
class TlsMaterial:
    """The certificate of a gateway, and the authority of its clients; PEM."""

    certificate: str
    private_key: str = field(repr=False)
    client_ca: str = ""


@dataclass(frozen=True, slots=True)
class GatewaySecrets:
    """What is read from Secrets and ConfigMaps that the service refers to."""

    tls: TlsMaterial | None = None
    api_keys: tuple[tuple[str, str], ...] = ()
    """Clients, and the SHA-256 of their keys in hexadecimal."""
    jwks: tuple[tuple[str, str], ...] = ()
    """The names of providers whose keys are in Secrets, and the keys (JSON)."""
    problems: tuple[str, ...] = ()
    """What is referred to and missing or invalid. A service with problems refuses requests; it is
    never open because a Secret is missing."""


@dataclass(frozen=True, slots=True)
class ControlPlaneAddress:
    """Where gateways reach the control plane."""

    host: str
    port: int
    """gRPC: ADS, held requests, service-wide answers."""
    ca: str = ""
    """The authority of its certificate, PEM; empty for no TLS (on one machine)."""
    http_port: int = 0
    """HTTP/1.1: service-wide answers. TLS as on the other port."""


@dataclass(frozen=True, slots=True)
class GatewayState:
    """The observed state that a gateway is configured from."""

    endpoints: dict[str, tuple[Endpoint, ...]]
    """By group of servers."""
    control_plane: ControlPlaneAddress
    token: str = field(repr=False)
    """The bearer token by which gateways of the service prove who they are."""
    secrets: GatewaySecrets = GatewaySecrets()
    gateways: int = 1
    """The number of ready gateways, which share the limits of clients."""
    overloaded: frozenset[str] = frozenset()
    """Groups whose load is above `limits.load`."""
    starting: frozenset[str] = frozenset()
    """Groups without a ready server whose requests are held, because one is to come."""
    listen_addresses: tuple[str, ...] = ()
    """Further addresses that the listeners bind: on one machine that of the Service."""


EnvoyResource = dict[str, Any]
"""A resource of Envoy's API in its JSON form, as in Envoy's documentation; the control plane turns
it into a message."""


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """The configuration of the gateways of a service: resources by name, for each type of xDS."""

    listeners: dict[str, EnvoyResource]
    routes: dict[str, EnvoyResource]
    clusters: dict[str, EnvoyResource]
    endpoints: dict[str, EnvoyResource]
    """ClusterLoadAssignments, by cluster: all that changes when a server comes or goes, except
    between no server and some."""
    secrets: dict[str, EnvoyResource] = field(default_factory=dict[str, EnvoyResource], repr=False)
    """Certificates, for SDS."""
