"""API objects as `kilonova doctor` decodes them: only the fields that it checks."""

import msgspec

from kilonova.api.meta import Metadata
from kilonova.kube import Resource
from kilonova.kube.admission.ca_bundle import WEBHOOK_CONFIGURATIONS

SERVICE_LABEL = "kubernetes.io/service-name"
"""Label of an EndpointSlice: the name of its Service."""


class NodeObject(msgspec.Struct):
    """A Node."""

    metadata: Metadata


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Holder, last renewal and duration of a Lease."""

    holder_identity: str | None = None
    renew_time: str | None = None
    lease_duration_seconds: int | None = None


class LeaseObject(msgspec.Struct):
    """A Lease."""

    metadata: Metadata
    spec: LeaseSpec = LeaseSpec()


class EndpointConditions(msgspec.Struct, frozen=True):
    """Whether an endpoint is ready; unset means ready."""

    ready: bool | None = None


class Endpoint(msgspec.Struct, frozen=True):
    """An endpoint of a Service."""

    conditions: EndpointConditions = EndpointConditions()


class EndpointSlice(msgspec.Struct):
    """Some of the endpoints of a Service."""

    metadata: Metadata
    endpoints: list[Endpoint] | None = None


class ServiceReference(msgspec.Struct, frozen=True):
    """Reference to the Service of a webhook."""

    namespace: str
    name: str


class WebhookClientConfig(msgspec.Struct, frozen=True, rename="camel"):
    """Service and CA bundle of a webhook."""

    service: ServiceReference | None = None
    ca_bundle: bytes = b""


class WebhookObject(msgspec.Struct, frozen=True, rename="camel"):
    """One webhook of a configuration."""

    name: str
    client_config: WebhookClientConfig = WebhookClientConfig()
    failure_policy: str = "Fail"


class WebhookConfiguration(msgspec.Struct):
    """A ValidatingWebhookConfiguration or MutatingWebhookConfiguration."""

    metadata: Metadata
    webhooks: list[WebhookObject] | None = None


NODES = Resource("", "v1", "nodes", "Node", False, NodeObject)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", True, LeaseObject)
SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True, EndpointSlice)
WEBHOOKS = tuple(each.as_type(WebhookConfiguration) for each in WEBHOOK_CONFIGURATIONS)
