"""ResourceQuotas as their controller sees them."""

import msgspec

from kilonova.api.meta import Metadata
from kilonova.kube import Resource

ResourceAmounts = dict[str, str | int | float]


class ResourceQuotaSpec(msgspec.Struct, frozen=True):
    """The hard limits."""

    hard: ResourceAmounts = {}


class ResourceQuotaStatus(msgspec.Struct, frozen=True):
    """The hard limits in force, and the usage."""

    hard: ResourceAmounts = {}
    used: ResourceAmounts = {}


class ResourceQuota(msgspec.Struct):
    """A ResourceQuota."""

    metadata: Metadata
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota", True, ResourceQuota)
