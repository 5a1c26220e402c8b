"""Services and EndpointSlices: only the fields used here."""

import msgspec

from kilonova.api.meta import Metadata, OwnerReference
from kilonova.kube import Resource

MANAGED_BY_LABEL = "endpointslice.kubernetes.io/managed-by"
CONTROLLER_NAME = "endpointslice-controller.k8s.io"
SERVICE_NAME_LABEL = "kubernetes.io/service-name"
HEADLESS_LABEL = "service.kubernetes.io/headless"


class ServicePort(msgspec.Struct, frozen=True, rename="camel"):
    """A port of a Service."""

    port: int
    name: str = ""
    protocol: str = "TCP"
    target_port: int | str = 0
    app_protocol: str | None = None


class ServiceSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Selector and ports of a Service."""

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
    def has_selector(self) -> bool:
        """Whether its endpoints are managed by the controllers."""
        return bool(self.spec.selector) and self.spec.type != "ExternalName"

    @property
    def is_headless(self) -> bool:
        return self.spec.cluster_ip in ("", "None")


class EndpointPort(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A port of all endpoints of a slice."""

    name: str = msgspec.field()
    port: int
    protocol: str
    app_protocol: str | None = None


class EndpointConditions(msgspec.Struct, frozen=True):
    """Whether an endpoint receives traffic."""

    ready: bool
    serving: bool
    terminating: bool


class TargetReference(msgspec.Struct, frozen=True):
    """The pod behind an endpoint."""

    kind: str
    namespace: str
    name: str
    uid: str


class Endpoint(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """An address behind a Service."""

    addresses: tuple[str, ...]
    conditions: EndpointConditions | None = None
    target_ref: TargetReference | None = None
    node_name: str | None = None
    zone: str | None = None
    hostname: str | None = None


class EndpointSlice(msgspec.Struct, rename="camel"):
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
ENDPOINT_SLICES = Resource(
    "discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True, EndpointSlice
)


def build_owner_reference(service: Service) -> OwnerReference:
    """The owner reference of objects that are deleted with their Service."""
    metadata = service.metadata
    return OwnerReference("v1", "Service", metadata.name, metadata.uid, True, True)
