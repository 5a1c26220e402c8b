"""ResourceQuotas as their controller sees them."""

import msgspec

from kilonova.api.meta import Metadata
from kilonova.kube import Resource

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
