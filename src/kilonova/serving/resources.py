"""The API resources that the controllers read and write, with the fields that they use."""

from typing import Any

import msgspec

from kilonova.api import grove, serving
from kilonova.api.meta import Condition, Metadata
from kilonova.kube import Resource
from kilonova.serving.settings import ServingSettings

__all__ = [
    "CLAIMS",
    "CONFIG_MAPS",
    "DEPLOYMENTS",
    "DISRUPTION_BUDGETS",
    "HORIZONTAL_POD_AUTOSCALERS",
    "INFERENCE_SERVICES",
    "INGRESSES",
    "PODS",
    "POD_CLIQUE_SETS",
    "POD_MONITORS",
    "SCALED_OBJECTS",
    "SECRETS",
    "SERVICES",
    "SERVICE_MONITORS",
    "ChildObject",
    "ContainerStatus",
    "DataObject",
    "Pod",
    "PodSpec",
    "PodStatus",
    "ServerSet",
    "ServerSetSpec",
    "ServerSetStatus",
    "Service",
    "ServiceSpec",
    "ServiceStatus",
    "get_source_kind",
]


class ChildObject(msgspec.Struct, gc=False):
    """An object that is only compared with what it should be."""

    metadata: Metadata
    spec: dict[str, Any] = {}


class ContainerStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The status of a container."""

    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: dict[str, Any] = {}
    last_state: dict[str, Any] = {}


class PodSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The spec of a pod."""

    node_name: str = ""


class PodStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The status of a pod."""

    phase: str = "Pending"
    pod_ip: str = msgspec.field(default="", name="podIP")
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(msgspec.Struct, gc=False):
    """A pod of a server or a gateway."""

    metadata: Metadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_ready(self) -> bool:
        """Whether the pod is ready and not being deleted."""
        return self.metadata.deletion_timestamp is None and any(
            each.type == "Ready" and each.status == "True" for each in self.status.conditions
        )


class ServerSetSpec(msgspec.Struct, frozen=True, gc=False):
    """How many servers there are to be."""

    replicas: int = 1
    template: dict[str, Any] = {}


class ServerSetStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """How many servers there are."""

    replicas: int = 0
    available_replicas: int = 0
    updated_replicas: int = 0
    observed_generation: int | None = None
    conditions: tuple[Condition, ...] = ()


class ServerSet(msgspec.Struct, gc=False):
    """A PodCliqueSet or a Deployment: the servers of a group."""

    metadata: Metadata
    spec: ServerSetSpec = ServerSetSpec()
    status: ServerSetStatus = ServerSetStatus()


class ServiceSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The spec of a Service."""

    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    type: str = "ClusterIP"
    selector: dict[str, str] = {}
    ports: tuple[dict[str, Any], ...] = ()


class LoadBalancerIngress(msgspec.Struct, frozen=True, gc=False):
    """An address of a load balancer."""

    ip: str = ""
    hostname: str = ""


class LoadBalancerStatus(msgspec.Struct, frozen=True, gc=False):
    """The addresses of a load balancer."""

    ingress: tuple[LoadBalancerIngress, ...] = ()


class ServiceStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The status of a Service."""

    load_balancer: LoadBalancerStatus = LoadBalancerStatus()


class Service(msgspec.Struct, gc=False):
    """A Service of the gateways, or of a group of servers."""

    metadata: Metadata
    spec: ServiceSpec = ServiceSpec()
    status: ServiceStatus = ServiceStatus()

    @property
    def load_balancer_host(self) -> str:
        """The address of its load balancer; empty while it has none."""
        found = (each.hostname or each.ip for each in self.status.load_balancer.ingress)
        return next(found, "")


class DataObject(msgspec.Struct, gc=False):
    """A Secret (values in base64) or a ConfigMap."""

    metadata: Metadata
    data: dict[str, str] = {}


INFERENCE_SERVICES = Resource(
    serving.GROUP,
    serving.VERSION,
    "inferenceservices",
    "InferenceService",
    True,
    serving.InferenceService,
)
POD_CLIQUE_SETS = Resource(
    grove.GROUP, grove.VERSION, "podcliquesets", "PodCliqueSet", True, ServerSet
)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", True, ServerSet)
PODS = Resource("", "v1", "pods", "Pod", True, Pod)
SERVICES = Resource("", "v1", "services", "Service", True, Service)
SECRETS = Resource("", "v1", "secrets", "Secret", True, DataObject)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", True, DataObject)
DISRUPTION_BUDGETS = Resource(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, ChildObject
)
INGRESSES = Resource("networking.k8s.io", "v1", "ingresses", "Ingress", True, ChildObject)
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, ChildObject)
HORIZONTAL_POD_AUTOSCALERS = Resource(
    "autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", True, ChildObject
)
# Kinds of other projects: a cluster may lack them.
SCALED_OBJECTS = Resource("keda.sh", "v1alpha1", "scaledobjects", "ScaledObject", True, ChildObject)
SERVICE_MONITORS = Resource(
    "monitoring.coreos.com", "v1", "servicemonitors", "ServiceMonitor", True, ChildObject
)
POD_MONITORS = Resource(
    "monitoring.coreos.com", "v1", "podmonitors", "PodMonitor", True, ChildObject
)


def get_source_kind(settings: ServingSettings) -> Resource[Any]:
    """The kind of the objects that declare services, and own what is made of them."""
    return CONFIG_MAPS if settings.namespace else INFERENCE_SERVICES
