"""Objects of the API as `kilonova doctor` reads them: the fields that it judges, and no others."""

import msgspec

from kilonova.api.meta import Metadata
from kilonova.kube import Resource
from kilonova.kube.admission.configuration import CONFIGURATIONS

SERVICE_LABEL = "kubernetes.io/service-name"
"""Of an EndpointSlice: the Service whose addresses it has."""


class NodeObject(msgspec.Struct):
    """A node, by its name."""

    metadata: Metadata


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Who holds a Lease, since when, and for how long."""

    holder_identity: str | None = None
    renew_time: str | None = None
    lease_duration_seconds: int | None = None


class LeaseObject(msgspec.Struct):
    """A Lease."""

    metadata: Metadata
    spec: LeaseSpec = LeaseSpec()


class EndpointConditions(msgspec.Struct, frozen=True):
    """Whether an address takes requests; not said is yes."""

    ready: bool | None = None


class Endpoint(msgspec.Struct, frozen=True):
    """Addresses of one pod."""

    conditions: EndpointConditions = EndpointConditions()


class EndpointSlice(msgspec.Struct):
    """Some of the addresses of a Service."""

    metadata: Metadata
    endpoints: list[Endpoint] | None = None


class ServiceReference(msgspec.Struct, frozen=True):
    """The Service of a webhook."""

    namespace: str
    name: str


class ClientConfig(msgspec.Struct, frozen=True, rename="camel"):
    """How a webhook is reached, and by which CA it is known."""

    service: ServiceReference | None = None
    ca_bundle: bytes = b""


class WebhookObject(msgspec.Struct, frozen=True, rename="camel"):
    """One webhook of a configuration."""

    name: str
    client_config: ClientConfig = ClientConfig()
    failure_policy: str = "Fail"


class WebhookConfiguration(msgspec.Struct):
    """A ValidatingWebhookConfiguration, or a mutating one."""

    metadata: Metadata
    webhooks: list[WebhookObject] | None = None


NODES = Resource("", "v1", "nodes", "Node", False, NodeObject)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", True, LeaseObject)
SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True, EndpointSlice)
WEBHOOKS = tuple(each.as_type(WebhookConfiguration) for each in CONFIGURATIONS)
