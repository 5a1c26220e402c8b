"""Services and EndpointSlices as the pod network sees them: only the fields it uses."""

import msgspec

from kilonova.api.meta import Metadata
from kilonova.kube import Resource


class ServicePort(msgspec.Struct, frozen=True, rename="camel"):
    """A port of a Service."""

    port: int
    name: str = ""
    protocol: str = "TCP"
    node_port: int = 0
    target_port: int | str = 0


class ServiceSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The spec of a Service."""

    type: str = "ClusterIP"
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    external_name: str = ""
    ports: tuple[ServicePort, ...] = ()
    session_affinity: str = "None"
    load_balancer_class: str | None = None


class LoadBalancerIngress(msgspec.Struct, frozen=True, rename="camel"):
    """An address of a load balancer."""

    ip: str = ""
    hostname: str = ""
    ip_mode: str = ""


class LoadBalancerStatus(msgspec.Struct, frozen=True):
    """The addresses of a load balancer."""

    ingress: tuple[LoadBalancerIngress, ...] = ()


class ServiceStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The status of a Service."""

    load_balancer: LoadBalancerStatus = LoadBalancerStatus()


class Service(msgspec.Struct, frozen=True):
    """A Service."""

    metadata: Metadata
    spec: ServiceSpec = ServiceSpec()
    status: ServiceStatus = ServiceStatus()

    @property
    def has_cluster_ip(self) -> bool:
        """Whether it has a ClusterIP: headless and ExternalName Services have none."""
        spec = self.spec
        return spec.type != "ExternalName" and spec.cluster_ip not in ("", "None")


class EndpointConditions(msgspec.Struct, frozen=True):
    """The conditions of an endpoint; an absent one counts as true."""

    ready: bool | None = None


class Endpoint(msgspec.Struct, frozen=True):
    """An endpoint of a Service: a pod."""

    addresses: tuple[str, ...] = ()
    hostname: str | None = None
    conditions: EndpointConditions = EndpointConditions()

    @property
    def is_ready(self) -> bool:
        return self.conditions.ready is not False


class EndpointPort(msgspec.Struct, frozen=True):
    """A port of all endpoints of a slice."""

    port: int | None = None
    name: str | None = None
    protocol: str = "TCP"


class EndpointSlice(msgspec.Struct, frozen=True, rename="camel"):
    """Some of a Service's endpoints."""

    metadata: Metadata
    address_type: str = "IPv4"
    endpoints: tuple[Endpoint, ...] | None = None
    ports: tuple[EndpointPort, ...] | None = None

    @property
    def service_key(self) -> tuple[str, str]:
        """The (namespace, name) of the Service that it belongs to."""
        name = self.metadata.labels.get("kubernetes.io/service-name", "")
        return (self.metadata.namespace, name)


SERVICES = Resource("", "v1", "services", "Service", True, Service)
ENDPOINT_SLICES = Resource(
    "discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True, EndpointSlice
)
