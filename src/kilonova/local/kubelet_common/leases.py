"""The Leases of nodes: their content, and how they are renewed."""

import asyncio
import math
from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from kilonova.api.json import JsonObject
from kilonova.api.times import format_micro_time
from kilonova.kube import Client, KubeError, NotFound
from kilonova.kube.client.resource import unstructured_resource
from kilonova.kube.observability.structured_logging import get_logger

LEASES = unstructured_resource("coordination.k8s.io", "v1", "leases", "Lease", True)
LEASE_NAMESPACE = "kube-node-lease"

_MAX_CONCURRENT = 16
_LEASE_SECONDS = 40
_log = get_logger(__name__)


def build_lease(name: str, now: datetime, heartbeat: float, node_uid: str = "") -> JsonObject:
    """The Lease of a node, renewed every `heartbeat` seconds; with the uid of its Node, it is
    deleted with that."""
    metadata: JsonObject = {"name": name, "namespace": LEASE_NAMESPACE}
    if node_uid:
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node_uid}
        metadata["ownerReferences"] = [owner]
    return {
        "metadata": metadata,
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": max(_LEASE_SECONDS, math.ceil(4 * heartbeat)),
            "renewTime": format_micro_time(now),
        },
    }


class LeaseRenewer(Protocol):
    """Renews Leases."""

    async def renew(self, nodes: Sequence[str], now: datetime) -> list[str]:
        """Renew the Leases of these nodes; returns the nodes that have none."""
        ...


class ApiLeaseRenewer:
    """Renews through any API."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def renew(self, nodes: Sequence[str], now: datetime) -> list[str]:
        body = {"spec": {"renewTime": format_micro_time(now)}}
        left, missing = iter(nodes), list[str]()

        async def work() -> None:
            for name in left:
                try:
                    await self._client.patch(LEASES, name, body, LEASE_NAMESPACE)
                except NotFound:
                    missing.append(name)
                except KubeError as error:
                    _log.warning("lease renewal failed", node=name, error=str(error))

        await asyncio.gather(*(work() for _ in range(min(_MAX_CONCURRENT, len(nodes)))))
        return missing
