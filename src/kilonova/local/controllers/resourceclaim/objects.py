"""Claims and templates: only the fields that controllers use."""

from typing import Any

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.kube import Resource
from kilonova.local.objects.core import NodeSelector

DELETE_PROTECTION_FINALIZER = "resource.kubernetes.io/delete-protection"
"""The finalizer of an allocated claim."""


class Consumer(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A consumer of a claim."""

    resource: str
    name: str
    uid: str
    api_group: str = ""

    @property
    def is_pod(self) -> bool:
        return (self.api_group, self.resource) == ("", "pods")


class ClaimAllocation(msgspec.Struct, frozen=True, rename="camel"):
    """The allocation of a claim; only matching nodes can use its devices."""

    node_selector: NodeSelector | None = None


class ResourceClaimStatus(msgspec.Struct, frozen=True, rename="camel"):
    """Allocation and reservations of a claim."""

    allocation: ClaimAllocation | None = None
    reserved_for: tuple[Consumer, ...] = ()


class ResourceClaim(msgspec.Struct):
    """A ResourceClaim."""

    metadata: Metadata
    status: ResourceClaimStatus = ResourceClaimStatus()

    def is_reserved_for(self, uid: str) -> bool:
        return any(consumer.uid == uid for consumer in self.status.reserved_for)


class ClaimTemplateMetadata(msgspec.Struct, frozen=True):
    """The metadata of claims from a template."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class ClaimTemplateSpec(msgspec.Struct, frozen=True):
    """The template of a claim."""

    metadata: ClaimTemplateMetadata = ClaimTemplateMetadata()
    spec: JsonObject = msgspec.field(default_factory=dict[str, Any])


class ResourceClaimTemplate(msgspec.Struct):
    """A ResourceClaimTemplate."""

    metadata: Metadata
    spec: ClaimTemplateSpec = ClaimTemplateSpec()


_GROUP = "resource.k8s.io"
RESOURCE_CLAIMS = Resource(_GROUP, "v1", "resourceclaims", "ResourceClaim", True, ResourceClaim)
RESOURCE_CLAIM_TEMPLATES = Resource(
    _GROUP, "v1", "resourceclaimtemplates", "ResourceClaimTemplate", True, ResourceClaimTemplate
)
