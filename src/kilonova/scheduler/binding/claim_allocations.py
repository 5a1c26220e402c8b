"""Allocates devices to ResourceClaims and reserves the claims for pods, before the pods are bound.

One write sets the allocation and reserves the claim for all pods of the gang; it fails if the claim
changed in the meantime. A crash before the pods are bound leaves allocated claims: the pods are
then placed where their devices are. If that is impossible, or the bindings fail, claims without
other consumers are deallocated.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Iterable
from itertools import count
from uuid import uuid4

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube import (
    AlreadyExists,
    ApiStatusError,
    Backoff,
    BadRequest,
    Conflict,
    ConnectionFailed,
    Forbidden,
    Invalid,
    NotFound,
)
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.scheduler.cache.extensions.devices import DeviceCache
from kilonova.scheduler.cache.scheduler_cache import SchedulerCache
from kilonova.scheduler.context import SchedulerContext
from kilonova.scheduler.convert.devices.allocations import convert_allocation, encode_allocation
from kilonova.scheduler.convert.devices.extended_resources import ExtendedResourceClaim
from kilonova.scheduler.core.decisions import InsufficientCapacity, UnschedulableGang
from kilonova.scheduler.core.dra.claims import MAX_CONSUMERS, ClaimAllocation
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.objects.core_v1 import PODS, Pod
from kilonova.scheduler.objects.keys import split_key
from kilonova.scheduler.objects.resource_v1 import (
    DELETE_PROTECTION_FINALIZER,
    RESOURCE_CLAIMS,
    ResourceClaim,
    ResourceClaimConsumer,
)

_log = get_logger(__name__)

_TERMINAL_ERRORS = (NotFound, Invalid, Forbidden, BadRequest)
_RETRY_BACKOFF = Backoff(0.1, 5.0)


class AllocationConflict(Exception):
    """A claim cannot be allocated as decided, because it changed in the meantime."""


def reserved_status(
    claim: ResourceClaim,
    allocation: ClaimAllocation,
    pods: Iterable[ResourceClaimConsumer],
    body: Callable[[], JsonObject],
) -> JsonObject | None:
    """The status to write to a claim; None if it has it already. Raises `AllocationConflict`."""
    allocated = claim.status.allocation
    if allocated is not None and convert_allocation(allocated) != allocation:
        raise AllocationConflict("it is allocated other devices")
    reserved_uids = {each.uid for each in claim.status.reserved_for}
    new_consumers = [each for each in pods if each.uid not in reserved_uids]
    if allocated is not None and not new_consumers:
        return None
    if claim.metadata.deletion_timestamp is not None:
        raise AllocationConflict("it is being deleted")
    consumers = [*claim.status.reserved_for, *new_consumers]
    if len(consumers) > MAX_CONSUMERS:
        raise AllocationConflict(f"more than {MAX_CONSUMERS} pods would consume it")
    status: JsonObject = {"reservedFor": msgspec.to_builtins(consumers)}
    return status if allocated is not None else {"allocation": body(), **status}


def released_status(
    claim: ResourceClaim, pods: Collection[str], *, used: bool
) -> JsonObject | None:
    """The status of a claim without the pods of these UIDs; None if it has it already.

    The claim is deallocated with its last consumer; `used` indicates that it has others, not yet
    reserved.
    """
    if claim.status.allocation is None:
        return None
    remaining = [each for each in claim.status.reserved_for if each.uid not in pods]
    stays_allocated = used or bool(remaining)
    if stays_allocated and len(remaining) == len(claim.status.reserved_for):
        return None
    status: JsonObject = {"reservedFor": msgspec.to_builtins(remaining) or None}
    return status if stays_allocated else {"allocation": None, **status}


class ClaimAllocationWriter:
    """A runnable that deallocates the claims of unschedulable pods; the binder calls the other
    methods."""

    name = "claim-allocations"

    def __init__(
        self,
        context: SchedulerContext,
        cache: SchedulerCache,
        devices: DeviceCache,
        *,
        new_share: Callable[[], str] = lambda: str(uuid4()),
    ) -> None:
        self._client = context.client
        self._devices = devices
        self._claims = cache.cluster.snapshot.claims
        self._find_pod = cache.find_pod
        self._slots = context.write_slots
        self._errors = context.errors
        self._eviction_timeout = context.settings.eviction_timeout
        self._new_share = new_share
        self._stranded: dict[str, list[Pod]] = {}
        """Allocated claims whose pods are unschedulable, and these pods."""
        self._wakeup = asyncio.Event()

    async def write(self, pod_placements: Iterable[PodPlacement]) -> bool:
        """Allocate and reserve all claims of a gang; False if one of them fails."""
        claims: dict[str, tuple[ClaimAllocation, list[ResourceClaimConsumer]]] = {}
        extended: list[tuple[Pod, ExtendedResourceClaim]] = []
        for pod_placement in pod_placements:
            pod = self._find_pod(pod_placement.pod) if pod_placement.claims else None
            claim = self._devices.extended_claim_of(pod) if pod is not None else None
            if pod is not None and claim is not None and claim.key in pod_placement.member.claims:
                extended.append((pod, claim))
            for key, allocation in zip(
                pod_placement.member.claims, pod_placement.claims, strict=True
            ):
                if pod is None or allocation is None:
                    return False
                consumer = ResourceClaimConsumer("pods", pod.metadata.name, pod.metadata.uid)
                claims.setdefault(key, (allocation, []))[1].append(consumer)
        if not claims:
            return True
        created = await asyncio.gather(
            *(self._create_extended_claim(pod, claim) for pod, claim in extended)
        )
        if not all(created):
            return False
        writes = (self._reserve_claim(key, *each) for key, each in claims.items())
        if not all(await asyncio.gather(*writes)):
            return False
        return all(
            await asyncio.gather(
                *(self._write_pod_claim_status(pod, claim) for pod, claim in extended)
            )
        )

    async def release(self, pod_placements: Iterable[PodPlacement]) -> None:
        """Release the claims of pods that were not bound."""
        pods_by_claim: dict[str, list[Pod]] = {}
        for pod_placement in pod_placements:
            pod = self._find_pod(pod_placement.pod) if pod_placement.claims else None
            if pod is not None:
                for key in pod_placement.member.claims:
                    pods_by_claim.setdefault(key, []).append(pod)
        await asyncio.gather(
            *(self._release_claim(key, pods) for key, pods in pods_by_claim.items())
        )

    def record_rejections(self, rejections: Iterable[UnschedulableGang]) -> None:
        """Note gangs without capacity: their claims may be allocated on infeasible nodes."""
        for rejection in rejections:
            if isinstance(rejection.reason, InsufficientCapacity):
                members = (each for group in rejection.gang.groups for each in group.members)
                claiming = [each for each in members if each.claims]
                pods = [pod for each in claiming if (pod := self._find_pod(each.pod)) is not None]
                for key in {key for each in claiming for key in each.claims}:
                    if self._is_reserved_only_for(key, pods):
                        self._stranded[key] = pods
                        self._wakeup.set()

    async def run(self) -> None:
        """Deallocate the claims of unschedulable pods."""
        while True:
            await self._wakeup.wait()
            self._wakeup.clear()
            stranded, self._stranded = self._stranded, {}
            for key, pods in stranded.items():
                if self._is_reserved_only_for(key, pods):
                    await self._errors.contain("claim", key, self._release_claim(key, pods))

    def _is_reserved_only_for(self, key: str, pods: Iterable[Pod]) -> bool:
        """Whether a claim is allocated and reserved only for these pods, none of which has a
        node."""
        claim = self._devices.find_claim(key)
        if claim is None or claim.status.allocation is None or self._claims.pods_using(key):
            return False
        consumers = {each.uid for each in claim.status.reserved_for}
        return bool(consumers) and consumers <= {pod.metadata.uid for pod in pods}

    async def _reserve_claim(
        self, key: str, allocation: ClaimAllocation, pods: list[ResourceClaimConsumer]
    ) -> bool:
        if not await self._wait_until_free(key, allocation):
            _log.warning("devices of resource claim still in use after eviction timeout", claim=key)
            return False

        async def write(claim: ResourceClaim) -> None:
            status = reserved_status(
                claim,
                allocation,
                pods,
                lambda: encode_allocation(
                    claim, allocation, self._devices.find_device_class, self._new_share
                ),
            )
            if status is not None:
                if DELETE_PROTECTION_FINALIZER not in claim.metadata.finalizers:
                    claim = await self._write_finalizers(
                        claim, [*claim.metadata.finalizers, DELETE_PROTECTION_FINALIZER]
                    )
                await self._write_status(claim, status)

        return await self._retry_claim_write(key, write)

    async def _wait_until_free(self, key: str, allocation: ClaimAllocation) -> bool:
        """Wait until the devices are released by all others: victims may still be terminating."""
        try:
            async with asyncio.timeout(self._eviction_timeout):
                for failures in count(1):
                    if self._claims.can_publish(key, allocation):
                        return True
                    await asyncio.sleep(_RETRY_BACKOFF.delay(failures))
        except TimeoutError:
            return False
        raise AssertionError

    async def _release_claim(self, key: str, pods: Iterable[Pod]) -> None:
        pods_by_uid = {pod.metadata.uid: pod.key for pod in pods}

        async def write(claim: ResourceClaim) -> None:
            used = bool(self._claims.pods_using(key).difference(pods_by_uid.values()))
            status = released_status(claim, pods_by_uid, used=used)
            if status is not None:
                claim = await self._write_status(claim, status)
                if (
                    claim.status.allocation is None
                    and DELETE_PROTECTION_FINALIZER in claim.metadata.finalizers
                ):
                    finalizers = [
                        each
                        for each in claim.metadata.finalizers
                        if each != DELETE_PROTECTION_FINALIZER
                    ]
                    await self._write_finalizers(claim, finalizers)

        await self._retry_claim_write(key, write)

    async def _create_extended_claim(self, pod: Pod, extended: ExtendedResourceClaim) -> bool:
        """Create the claim of a pod's extended resources, unless it exists."""

        async def create() -> None:
            if self._devices.find_claim(extended.key) is None:
                body, namespace = extended.encode_claim(pod), pod.metadata.namespace
                with contextlib.suppress(AlreadyExists):
                    await self._client.create(RESOURCE_CLAIMS, body, namespace)

        return await self._retry_request(extended.key, create)

    async def _write_pod_claim_status(self, pod: Pod, extended: ExtendedResourceClaim) -> bool:
        """Write to the pod's status which claim has the devices of its extended resources."""
        current, meta = pod.status.extended_resource_claim_status, pod.metadata
        if current is not None and extended.key.endswith(f"/{current.resource_claim_name}"):
            return True
        body: JsonObject = {"metadata": {"uid": meta.uid}, "status": extended.encode_pod_status()}

        async def patch() -> None:
            await self._client.patch(PODS, meta.name, body, meta.namespace, subresource="status")

        return await self._retry_request(extended.key, patch)

    async def _retry_request(self, key: str, request: Callable[[], Awaitable[None]]) -> bool:
        """Repeat a request until the API server answers it; False if it rejects it."""
        for failures in count(1):
            try:
                async with self._slots:
                    await request()
                return True
            except (*_TERMINAL_ERRORS, Conflict) as error:
                _log.warning("resource claim not allocated", claim=key, error=str(error))
                return False
            except (ConnectionFailed, ApiStatusError) as error:
                _log.warning("resource claim not written, retrying", claim=key, error=str(error))
            await asyncio.sleep(_RETRY_BACKOFF.delay(failures))
        raise AssertionError

    async def _retry_claim_write(
        self, key: str, write: Callable[[ResourceClaim], Awaitable[None]]
    ) -> bool:
        """Write to the current version of a claim until it succeeds; False if it fails for good."""
        claim = self._devices.find_claim(key)
        for failures in count(1):
            try:
                async with self._slots:
                    if claim is None:
                        namespace, name = split_key(key)
                        claim = await self._client.get(RESOURCE_CLAIMS, name, namespace)
                    await write(claim)
                return True
            except (AllocationConflict, *_TERMINAL_ERRORS) as error:
                _log.warning("resource claim not allocated", claim=key, error=str(error))
                return False
            except (ConnectionFailed, ApiStatusError) as error:
                if not isinstance(error, Conflict):
                    _log.warning(
                        "resource claim not written, retrying", claim=key, error=str(error)
                    )
                claim = None
            await asyncio.sleep(_RETRY_BACKOFF.delay(failures))
        raise AssertionError

    async def _write_finalizers(self, claim: ResourceClaim, finalizers: list[str]) -> ResourceClaim:
        metadata: JsonObject = {**_precondition(claim), "finalizers": finalizers or None}
        meta = claim.metadata
        return await self._client.patch(
            RESOURCE_CLAIMS, meta.name, {"metadata": metadata}, meta.namespace
        )

    async def _write_status(self, claim: ResourceClaim, status: JsonObject) -> ResourceClaim:
        meta = claim.metadata
        body: JsonObject = {"metadata": _precondition(claim), "status": status}
        return await self._client.patch(
            RESOURCE_CLAIMS, meta.name, body, meta.namespace, subresource="status"
        )


def _precondition(claim: ResourceClaim) -> JsonObject:
    """The UID and resource version that a claim must still have when it is written."""
    return {"uid": claim.metadata.uid, "resourceVersion": claim.metadata.resource_version}
