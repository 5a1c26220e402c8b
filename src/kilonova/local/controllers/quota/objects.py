"""ResourceQuotas as their controller sees them."""

import msgspec

from kilonova.kube import Resource
from kilonova.local.controllers.objects import Metadata

Hard = dict[str, str | int | float]


class QuotaSpec(msgspec.Struct, frozen=True):
    """How much there is."""

    hard: Hard = {}


class QuotaStatus(msgspec.Struct, frozen=True):
    """How much of it counts, and is used."""

    hard: Hard = {}
    used: Hard = {}


class Quota(msgspec.Struct):
    """A ResourceQuota."""

    metadata: Metadata
    spec: QuotaSpec = QuotaSpec()
    status: QuotaStatus = QuotaStatus()


QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota", True, Quota)
