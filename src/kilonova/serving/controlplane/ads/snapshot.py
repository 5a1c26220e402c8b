"""The resources of a service, encoded, with their versions. No protobuf is needed to hold them."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import cast

import msgspec

from kilonova.serving.gateway.model import EnvoyResource, GatewayConfig, GatewayState
from kilonova.serving.gateway.stat_names import SERVER_PORTS, build_upstream_cluster


class ResourceType(StrEnum):
    """The types of resources, in the order in which they are sent: make before break."""

    CLUSTER = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
    ENDPOINTS = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
    SECRET = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"  # noqa: S105 - a type
    LISTENER = "type.googleapis.com/envoy.config.listener.v3.Listener"
    ROUTES = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"

    @property
    def short_name(self) -> str:
        """As in metrics and logs: `ClusterLoadAssignment`."""
        return self.value.rpartition(".")[2]


COMPLETE_TYPES = (ResourceType.CLUSTER, ResourceType.LISTENER)
"""Types of which a response has all resources: those that it lacks are removed. A response of the
others has those that changed."""


@dataclass(frozen=True, slots=True)
class EncodedResource:
    """A resource as it is sent."""

    version: str
    """A hash of its content."""
    body: bytes = field(repr=False)
    """The message, in the wire format."""


Resources = Mapping[str, EncodedResource]
"""Resources of one type, by name."""
Encode = Callable[[ResourceType, EnvoyResource], bytes]

_NO_RESOURCES: Resources = {}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The resources of a service at one time."""

    resources: Mapping[ResourceType, Resources]
    endpoint_names: frozenset[str] = frozenset()
    """The endpoints that clusters of the snapshot subscribe to."""
    held_clusters: frozenset[str] = frozenset()
    """Clusters whose routes hold requests: their last endpoint goes after the routes have
    changed."""

    def of_type(self, type_: ResourceType) -> Resources:
        """The resources of a type."""
        return self.resources.get(type_, _NO_RESOURCES)


def encode_snapshot(
    config: GatewayConfig, state: GatewayState, previous: Snapshot | None, encode: Encode
) -> Snapshot:
    """The snapshot of a configuration. Resources that did not change are not encoded again."""
    sources = {
        ResourceType.CLUSTER: config.clusters,
        ResourceType.ENDPOINTS: config.endpoints,
        ResourceType.SECRET: config.secrets,
        ResourceType.LISTENER: config.listeners,
        ResourceType.ROUTES: config.routes,
    }
    return Snapshot(
        {
            type_: {
                name: _encode_resource(
                    type_, resource, previous.of_type(type_).get(name) if previous else None, encode
                )
                for name, resource in source.items()
            }
            for type_, source in sources.items()
        },
        endpoint_names=frozenset(
            _find_endpoint_name(name, cluster)
            for name, cluster in config.clusters.items()
            if cluster.get("type") == "EDS"
        )
        & frozenset(config.endpoints),
        held_clusters=frozenset(
            build_upstream_cluster(group, port) for group in state.starting for port in SERVER_PORTS
        ),
    )


def compute_version(resources: Iterable[tuple[str, str]]) -> str:
    """The version of some resources of a type, from their names and versions: equal content has an
    equal version, also after a restart."""
    text = "".join(f"{name}={version};" for name, version in sorted(resources))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _encode_resource(
    type_: ResourceType, resource: EnvoyResource, known: EncodedResource | None, encode: Encode
) -> EncodedResource:
    text = msgspec.json.encode(resource, order="deterministic")
    version = hashlib.sha256(text).hexdigest()[:16]
    if known is not None and known.version == version:
        return known
    return EncodedResource(version, encode(type_, resource))


def _find_endpoint_name(name: str, cluster: EnvoyResource) -> str:
    discovery = cast("dict[str, str]", cluster.get("eds_cluster_config", {}))
    return discovery.get("service_name") or name
