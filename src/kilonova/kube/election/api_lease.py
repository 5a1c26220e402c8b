"""A lease in the API server: a coordination.k8s.io/v1 Lease, as client-go's electors use it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube.client.client import Client
from kilonova.kube.client.errors import AlreadyExists, Conflict, KubeError, NotFound
from kilonova.kube.client.resource import Resource
from kilonova.kube.election.lease_store import (
    LeaseConflict,
    LeaseRecord,
    LeaseUnavailable,
    StoredLease,
)


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The holder of a Lease, since when, and its lease duration."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class LeaseMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class Lease(msgspec.Struct, frozen=True):
    """The fields of a Lease that an election uses."""

    metadata: LeaseMeta = msgspec.field(default_factory=LeaseMeta)
    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)


LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", True, Lease)


class ApiLeaseStore:
    """One Lease of the API server. `client` must not be fenced by the election."""

    def __init__(self, client: Client, name: str, namespace: str) -> None:
        self._client = client
        self._lease = name
        self._namespace = namespace

    @property
    def name(self) -> str:
        return f"{self._namespace}/{self._lease}"

    async def read(self) -> StoredLease | None:
        try:
            async with _translate_errors():
                return _to_stored(await self._client.get(LEASES, self._lease, self._namespace))
        except LeaseConflict:
            return None  # not found

    async def create(self, record: LeaseRecord) -> StoredLease:
        body: JsonObject = {
            "metadata": {"name": self._lease, "namespace": self._namespace},
            "spec": _to_spec(record),
        }
        async with _translate_errors():
            return _to_stored(await self._client.create(LEASES, body, self._namespace))

    async def replace(self, record: LeaseRecord, version: str) -> StoredLease:
        patch: JsonObject = {"metadata": {"resourceVersion": version}, "spec": _to_spec(record)}
        async with _translate_errors():
            return _to_stored(await self._client.patch(LEASES, self._lease, patch, self._namespace))


@asynccontextmanager
async def _translate_errors() -> AsyncGenerator[None]:
    try:
        yield
    except (Conflict, AlreadyExists, NotFound) as error:
        raise LeaseConflict(str(error)) from error
    except KubeError as error:
        raise LeaseUnavailable(str(error)) from error


def _to_stored(lease: Lease) -> StoredLease:
    spec = lease.spec
    record = LeaseRecord(
        spec.holder_identity or "",
        spec.lease_duration_seconds or 0,
        spec.acquire_time or "",
        spec.renew_time or "",
        -1 if spec.lease_transitions is None else spec.lease_transitions,
    )
    return StoredLease(record, lease.metadata.resource_version)


def _to_spec(record: LeaseRecord) -> JsonObject:
    return {
        "holderIdentity": record.holder,
        "leaseDurationSeconds": record.duration_seconds,
        "acquireTime": record.acquired,
        "renewTime": record.renewed,
        "leaseTransitions": record.token,
    }
