"""Renewal of the Leases of many nodes, all at once in the store.

A heartbeat changes one field of a Lease. Through the API it costs as much as any write; with ten
thousand nodes that is most of the load of an idle cluster. Here the field is replaced in the stored
bytes, and all Leases that are due share one commit. Watches see no difference.
"""

from collections.abc import Sequence
from datetime import datetime

from kilonova.api.times import format_micro_time
from kilonova.local.apiserver.storage import Entry, PutEntry, RevisionStore
from kilonova.local.kubelet_common.leases import LEASE_NAMESPACE, LEASES

_RENEW_TIME_FIELD = b'"renewTime":"'
_RESOURCE_VERSION_FIELD = b'"resourceVersion":"'


class StoreLeaseRenewer:
    """The `LeaseRenewer` of the process that has the store."""

    def __init__(self, store: RevisionStore) -> None:
        self._store = store

    async def renew(self, nodes: Sequence[str], now: datetime) -> list[str]:
        moment = format_micro_time(now).encode()
        missing: list[str] = []

        def renewed(name: str, current: Entry | None, rv: int) -> PutEntry | None:
            body = (
                None if current is None else _replace_field(current.body, _RENEW_TIME_FIELD, moment)
            )
            if current is None or body is None:
                missing.append(name)
                return None
            body = _replace_field(body, _RESOURCE_VERSION_FIELD, b"%d" % rv)
            assert body is not None
            return PutEntry(
                Entry(current.key, rv, body, current.uid, current.labels, current.fields)
            )

        await self._store.write_all(
            LEASES.full_name,
            (
                (f"{LEASE_NAMESPACE}/{name}", lambda found, rv, name=name: renewed(name, found, rv))
                for name in nodes
            ),
        )
        return missing


def _replace_field(body: bytes, before: bytes, value: bytes) -> bytes | None:
    """The body with the value of a field replaced; None if it does not have the field."""
    start = body.find(before)
    if start < 0:
        return None
    start += len(before)
    return body[:start] + value + body[body.index(b'"', start) :]
