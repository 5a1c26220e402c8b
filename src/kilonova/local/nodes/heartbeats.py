"""How the Leases of many nodes are renewed: one request each, or all at once in the store.

A heartbeat changes one field of a Lease. Through the API it costs what any write costs; with ten
thousand nodes that is most of what an idle cluster does. Inside an embedded cluster the field is
exchanged in the stored bytes, and all that are due share one commit. Watches see no difference.
"""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from kilonova.api.times import micro_time
from kilonova.kube import Client, KubeError, NotFound
from kilonova.kube.logging import get_logger
from kilonova.kube.resource import plain
from kilonova.local.storage import Entry, Put, Store

LEASES = plain("coordination.k8s.io", "v1", "leases", "Lease", True)
LEASE_NAMESPACE = "kube-node-lease"

_AT_ONCE = 16
_RENEWED = b'"renewTime":"'
_VERSION = b'"resourceVersion":"'
_log = get_logger(__name__)


class Heartbeats(Protocol):
    """Renews Leases."""

    async def renew(self, nodes: Sequence[str], now: datetime) -> list[str]:
        """Renew the Leases of these nodes; tells which have none."""
        ...


class RequestedHeartbeats:
    """Through any API."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def renew(self, nodes: Sequence[str], now: datetime) -> list[str]:
        body = {"spec": {"renewTime": micro_time(now)}}
        left, missing = iter(nodes), list[str]()

        async def work() -> None:
            for name in left:
                try:
                    await self._client.patch(LEASES, name, body, LEASE_NAMESPACE)
                except NotFound:
                    missing.append(name)
                except KubeError as error:
                    _log.warning("could not renew", node=name, error=str(error))

        await asyncio.gather(*(work() for _ in range(min(_AT_ONCE, len(nodes)))))
        return missing


class StoredHeartbeats:
    """Within the process that has the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def renew(self, nodes: Sequence[str], now: datetime) -> list[str]:
        moment = micro_time(now).encode()
        missing: list[str] = []

        def renewed(name: str, current: Entry | None, rv: int) -> Put | None:
            body = None if current is None else _exchanged(current.body, _RENEWED, moment)
            if current is None or body is None:
                missing.append(name)
                return None
            body = _exchanged(body, _VERSION, b"%d" % rv)
            assert body is not None
            return Put(Entry(current.key, rv, body, current.uid, current.labels, current.fields))

        await self._store.write_all(
            LEASES.full_name,
            (
                (f"{LEASE_NAMESPACE}/{name}", lambda found, rv, name=name: renewed(name, found, rv))
                for name in nodes
            ),
        )
        return missing


def _exchanged(body: bytes, before: bytes, value: bytes) -> bytes | None:
    """The body with another text at a field; None if it has no such field."""
    start = body.find(before)
    if start < 0:
        return None
    start += len(before)
    return body[:start] + value + body[body.index(b'"', start) :]
