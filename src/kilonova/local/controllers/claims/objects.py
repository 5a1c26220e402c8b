"""Claims and templates, as far as controllers look at them."""

from typing import Any

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.kube import Resource
from kilonova.local.controllers.objects import NodeSelector

PROTECTION = "resource.kubernetes.io/delete-protection"
"""The finalizer of a claim that has devices."""


class Consumer(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Who uses a claim."""

    resource: str
    name: str
    uid: str
    api_group: str = ""

    @property
    def is_pod(self) -> bool:
        return (self.api_group, self.resource) == ("", "pods")


class Allocation(msgspec.Struct, frozen=True, rename="camel"):
    """The devices that a claim has; only nodes that are selected can use them."""

    node_selector: NodeSelector | None = None


class ClaimStatus(msgspec.Struct, frozen=True, rename="camel"):
    """What a claim has, and for whom."""

    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()


class Claim(msgspec.Struct):
    """A ResourceClaim."""

    metadata: Metadata
    status: ClaimStatus = ClaimStatus()

    def is_reserved_for(self, uid: str) -> bool:
        return any(consumer.uid == uid for consumer in self.status.reserved_for)


class TemplateMetadata(msgspec.Struct, frozen=True):
    """What claims made from a template inherit."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class TemplateSpec(msgspec.Struct, frozen=True):
    """What claims made from a template are."""

    metadata: TemplateMetadata = TemplateMetadata()
    spec: JsonObject = msgspec.field(default_factory=dict[str, Any])


class Template(msgspec.Struct):
    """A ResourceClaimTemplate."""

    metadata: Metadata
    spec: TemplateSpec = TemplateSpec()


_GROUP = "resource.k8s.io"
CLAIMS = Resource(_GROUP, "v1", "resourceclaims", "ResourceClaim", True, Claim)
TEMPLATES = Resource(
    _GROUP, "v1", "resourceclaimtemplates", "ResourceClaimTemplate", True, Template
)
