"""Services and EndpointSlices: the fields that are used here."""

import msgspec

from kilonova.api.meta import Metadata, OwnerReference
from kilonova.kube import Resource

MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
CONTROLLER = "endpointslice-controller.k8s.io"
SERVICE_NAME = "kubernetes.io/service-name"
HEADLESS = "service.kubernetes.io/headless"


class ServicePort(msgspec.Struct, frozen=True, rename="camel"):
    """A port of a Service."""

    port: int
    name: str = ""
    protocol: str = "TCP"
    target_port: int | str = 0
    app_protocol: str | None = None


class ServiceSpec(msgspec.Struct, frozen=True, rename="camel"):
    """What a Service selects, and offers."""

    selector: dict[str, str] | None = None
    ports: tuple[ServicePort, ...] = ()
    type: str = "ClusterIP"
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    ip_families: tuple[str, ...] = ("IPv4",)
    publish_not_ready_addresses: bool = False


class Service(msgspec.Struct, frozen=True):
    """A Service."""

    metadata: Metadata
    spec: ServiceSpec = ServiceSpec()

    @property
    def selects(self) -> bool:
        """Whether its endpoints are ours to keep."""
        return bool(self.spec.selector) and self.spec.type != "ExternalName"

    @property
    def headless(self) -> bool:
        return self.spec.cluster_ip in ("", "None")


class EndpointPort(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A port that all endpoints of a slice have."""

    name: str = msgspec.field()
    port: int
    protocol: str
    app_protocol: str | None = None


class Conditions(msgspec.Struct, frozen=True):
    """Whether an endpoint takes traffic."""

    ready: bool
    serving: bool
    terminating: bool


class Target(msgspec.Struct, frozen=True):
    """The pod behind an endpoint."""

    kind: str
    namespace: str
    name: str
    uid: str


class Endpoint(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """An address behind a Service."""

    addresses: tuple[str, ...]
    conditions: Conditions | None = None
    target_ref: Target | None = None
    node_name: str | None = None
    zone: str | None = None
    hostname: str | None = None


class Slice(msgspec.Struct, rename="camel"):
    """An EndpointSlice."""

    metadata: Metadata
    address_type: str = "IPv4"
    endpoints: tuple[Endpoint, ...] | None = None
    ports: tuple[EndpointPort, ...] | None = None

    def belongs_to(self, service: Service) -> bool:
        return any(
            owner.uid == service.metadata.uid and owner.kind == "Service"
            for owner in self.metadata.owner_references
        )


SERVICES = Resource("", "v1", "services", "Service", True, Service)
SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True, Slice)


def owner_of(service: Service) -> OwnerReference:
    """Makes an object go with its Service."""
    known = service.metadata
    return OwnerReference("v1", "Service", known.name, known.uid, True, True)
