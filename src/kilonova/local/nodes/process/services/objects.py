"""Services and EndpointSlices as the pod network sees them: the fields that it uses."""

import msgspec

from kilonova.api.meta import Metadata
from kilonova.kube import Resource


class ServicePort(msgspec.Struct, frozen=True, rename="camel"):
    """A port at which a Service is reached."""

    port: int
    name: str = ""
    protocol: str = "TCP"
    node_port: int = 0
    target_port: int | str = 0


class ServiceSpec(msgspec.Struct, frozen=True, rename="camel"):
    """What a Service should be."""

    type: str = "ClusterIP"
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    external_name: str = ""
    ports: tuple[ServicePort, ...] = ()
    session_affinity: str = "None"
    load_balancer_class: str | None = None


class Ingress(msgspec.Struct, frozen=True, rename="camel"):
    """An address of a load balancer."""

    ip: str = ""
    hostname: str = ""
    ip_mode: str = ""


class LoadBalancer(msgspec.Struct, frozen=True):
    """Where a load balancer is reached."""

    ingress: tuple[Ingress, ...] = ()


class ServiceStatus(msgspec.Struct, frozen=True, rename="camel"):
    """What was arranged for a Service."""

    load_balancer: LoadBalancer = LoadBalancer()


class Service(msgspec.Struct, frozen=True):
    """A Service."""

    metadata: Metadata
    spec: ServiceSpec = ServiceSpec()
    status: ServiceStatus = ServiceStatus()

    @property
    def has_address(self) -> bool:
        """Whether it has a ClusterIP: headless Services and external names have none."""
        spec = self.spec
        return spec.type != "ExternalName" and spec.cluster_ip not in ("", "None")


class Conditions(msgspec.Struct, frozen=True):
    """How an endpoint is doing; what is not said counts as yes."""

    ready: bool | None = None


class Endpoint(msgspec.Struct, frozen=True):
    """What is behind a Service: a pod."""

    addresses: tuple[str, ...] = ()
    hostname: str | None = None
    conditions: Conditions = Conditions()

    @property
    def ready(self) -> bool:
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
    def service(self) -> tuple[str, str]:
        """The (namespace, name) of the Service that it belongs to."""
        name = self.metadata.labels.get("kubernetes.io/service-name", "")
        return (self.metadata.namespace, name)


SERVICES = Resource("", "v1", "services", "Service", True, Service)
SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True, EndpointSlice)
