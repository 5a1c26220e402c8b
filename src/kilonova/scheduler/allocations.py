"""Writes to claims which devices they have, and for which pods, before the pods are bound.

One write gives a claim its devices and reserves it for all of its pods in a gang; it holds only if
nobody changed the claim since. A crash before the pods are bound leaves claims that have devices:
their pods are then placed where these are. Where that is not possible, and where bindings come to
nothing, claims that nobody else uses lose their devices again.
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
    Client,
    Conflict,
    ConnectionFailed,
    Forbidden,
    Invalid,
    NotFound,
)
from kilonova.kube.logging import get_logger
from kilonova.scheduler.containment import ErrorReporter
from kilonova.scheduler.core.claimbook import ClaimBook
from kilonova.scheduler.core.claims import MOST_CONSUMERS, Allocation
from kilonova.scheduler.core.plan import NoRoom, Refusal
from kilonova.scheduler.core.snapshot import Booking
from kilonova.scheduler.deviceobjects import CLAIMS, PROTECTION, Consumer, ResourceClaim
from kilonova.scheduler.devices import Devices
from kilonova.scheduler.objects import PODS, Pod
from kilonova.scheduler.reading.allocations import allocation_body, allocation_of
from kilonova.scheduler.reading.extendedresources import ExtendedClaim

_log = get_logger(__name__)

_REFUSED = (NotFound, Invalid, Forbidden, BadRequest)
_PAUSES = Backoff(0.1, 5.0)


class Unfit(Exception):
    """A claim that can not be given what was decided: somebody else was faster."""


def reserved(
    claim: ResourceClaim,
    allocation: Allocation,
    pods: Iterable[Consumer],
    body: Callable[[], JsonObject],
) -> JsonObject | None:
    """The status that a claim gets; None if it is so already. Raises `Unfit`."""
    has = claim.status.allocation
    if has is not None and allocation_of(has) != allocation:
        raise Unfit("it has other devices")
    known = {each.uid for each in claim.status.reserved_for}
    more = [each for each in pods if each.uid not in known]
    if has is not None and not more:
        return None
    if claim.metadata.deletion_timestamp is not None:
        raise Unfit("it is being deleted")
    everybody = [*claim.status.reserved_for, *more]
    if len(everybody) > MOST_CONSUMERS:
        raise Unfit(f"more than {MOST_CONSUMERS} pods would use it")
    status: JsonObject = {"reservedFor": msgspec.to_builtins(everybody)}
    return status if has is not None else {"allocation": body(), **status}


def unreserved(claim: ResourceClaim, pods: Collection[str], *, used: bool) -> JsonObject | None:
    """The status of a claim that pods, by their uids, do not use after all; None if it is so
    already. Its devices go with the last of its users; `used` says that there will be others."""
    if claim.status.allocation is None:
        return None
    rest = [each for each in claim.status.reserved_for if each.uid not in pods]
    keeps = used or bool(rest)
    if keeps and len(rest) == len(claim.status.reserved_for):
        return None
    status: JsonObject = {"reservedFor": msgspec.to_builtins(rest) or None}
    return status if keeps else {"allocation": None, **status}


class Allocations:
    """A part: takes devices back from claims whose pods have no place; the rest is called."""

    name = "allocations"

    def __init__(
        self,
        client: Client,
        devices: Devices,
        book: ClaimBook,
        find: Callable[[str], Pod | None],
        slots: asyncio.Semaphore,
        errors: ErrorReporter,
        *,
        patience: float,
        new_share: Callable[[], str] = lambda: str(uuid4()),
    ) -> None:
        self._client = client
        self._devices = devices
        self._book = book
        self._find = find
        self._slots = slots
        self._errors = errors
        self._patience = patience
        self._new_share = new_share
        self._stranded: dict[str, list[Pod]] = {}
        """Claims with devices from which their pods have no place, and these."""
        self._more = asyncio.Event()

    async def write(self, bookings: Iterable[Booking]) -> bool:
        """Gives claims their devices, all those of a gang; False if one of them can not be."""
        wanted: dict[str, tuple[Allocation, list[Consumer]]] = {}
        extended: list[tuple[Pod, ExtendedClaim]] = []
        for booking in bookings:
            pod = self._find(booking.pod) if booking.claims else None
            claim = self._devices.extended_claim(pod) if pod is not None else None
            if pod is not None and claim is not None and claim.key in booking.member.claims:
                extended.append((pod, claim))
            for key, allocation in zip(booking.member.claims, booking.claims, strict=True):
                if pod is None or allocation is None:
                    return False
                consumer = Consumer("pods", pod.metadata.name, pod.metadata.uid)
                wanted.setdefault(key, (allocation, []))[1].append(consumer)
        if not wanted:
            return True
        made = await asyncio.gather(*(self._create(pod, claim) for pod, claim in extended))
        if not all(made):
            return False
        writes = (self._reserve(key, *each) for key, each in wanted.items())
        if not all(await asyncio.gather(*writes)):
            return False
        return all(await asyncio.gather(*(self._map(pod, claim) for pod, claim in extended)))

    async def take_back(self, bookings: Iterable[Booking]) -> None:
        """Pods of these bookings will not use their claims."""
        gone: dict[str, list[Pod]] = {}
        for booking in bookings:
            pod = self._find(booking.pod) if booking.claims else None
            if pod is not None:
                for key in booking.member.claims:
                    gone.setdefault(key, []).append(pod)
        await asyncio.gather(*(self._unreserve(key, pods) for key, pods in gone.items()))

    def refused(self, refusals: Iterable[Refusal]) -> None:
        """Gangs found no place: what their claims have may be where they can not be."""
        for refusal in refusals:
            if isinstance(refusal.why, NoRoom):
                members = (each for group in refusal.gang.groups for each in group.members)
                claiming = [each for each in members if each.claims]
                pods = [pod for each in claiming if (pod := self._find(each.pod)) is not None]
                for key in {key for each in claiming for key in each.claims}:
                    if self._is_only_for(key, pods):
                        self._stranded[key] = pods
                        self._more.set()

    async def run(self) -> None:
        """Takes devices back from claims of pods that were refused."""
        while True:
            await self._more.wait()
            self._more.clear()
            stranded, self._stranded = self._stranded, {}
            for key, pods in stranded.items():
                if self._is_only_for(key, pods):
                    await self._errors.contain("claim", key, self._unreserve(key, pods))

    def _is_only_for(self, key: str, pods: Iterable[Pod]) -> bool:
        """Whether a claim has devices, and only for pods of these, which have no node."""
        claim = self._devices.claim(key)
        if claim is None or claim.status.allocation is None or self._book.users(key):
            return False
        consumers = {each.uid for each in claim.status.reserved_for}
        return bool(consumers) and consumers <= {pod.metadata.uid for pod in pods}

    async def _reserve(self, key: str, allocation: Allocation, pods: list[Consumer]) -> bool:
        if not await self._is_free(key, allocation):
            _log.warning("devices are not given up by others", claim=key)
            return False

        async def write(claim: ResourceClaim) -> None:
            status = reserved(
                claim,
                allocation,
                pods,
                lambda: allocation_body(
                    claim, allocation, self._devices.device_class, self._new_share
                ),
            )
            if status is not None:
                if PROTECTION not in claim.metadata.finalizers:
                    claim = await self._protect(claim, [*claim.metadata.finalizers, PROTECTION])
                await self._write_status(claim, status)

        return await self._insist(key, write)

    async def _is_free(self, key: str, allocation: Allocation) -> bool:
        """Waits until nobody else is seen to have the devices: those who made way may still be."""
        try:
            async with asyncio.timeout(self._patience):
                for failures in count(1):
                    if self._book.may_be_written(key, allocation):
                        return True
                    await asyncio.sleep(_PAUSES.delay(failures))
        except TimeoutError:
            return False
        raise AssertionError

    async def _unreserve(self, key: str, pods: Iterable[Pod]) -> None:
        gone = {pod.metadata.uid: pod.key for pod in pods}

        async def write(claim: ResourceClaim) -> None:
            used = bool(self._book.users(key).difference(gone.values()))
            status = unreserved(claim, gone, used=used)
            if status is not None:
                claim = await self._write_status(claim, status)
                if claim.status.allocation is None and PROTECTION in claim.metadata.finalizers:
                    kept = [each for each in claim.metadata.finalizers if each != PROTECTION]
                    await self._protect(claim, kept)

        await self._insist(key, write)

    async def _create(self, pod: Pod, extended: ExtendedClaim) -> bool:
        """Makes the claim of a pod's extended resources, unless it is there."""

        async def create() -> None:
            if self._devices.claim(extended.key) is None:
                body, namespace = extended.body(pod), pod.metadata.namespace
                with contextlib.suppress(AlreadyExists):
                    await self._client.create(CLAIMS, body, namespace)

        return await self._until_answered(extended.key, create)

    async def _map(self, pod: Pod, extended: ExtendedClaim) -> bool:
        """Writes to a pod which claim has the devices of its extended resources."""
        known, meta = pod.status.extended_resource_claim_status, pod.metadata
        if known is not None and extended.key.endswith(f"/{known.resource_claim_name}"):
            return True
        body: JsonObject = {"metadata": {"uid": meta.uid}, "status": extended.pod_status()}

        async def patch() -> None:
            await self._client.patch(PODS, meta.name, body, meta.namespace, subresource="status")

        return await self._until_answered(extended.key, patch)

    async def _until_answered(self, key: str, request: Callable[[], Awaitable[None]]) -> bool:
        """Repeats a request until the server answers it; False if it says no."""
        for failures in count(1):
            try:
                async with self._slots:
                    await request()
                return True
            except (*_REFUSED, Conflict) as error:
                _log.warning("claim refused", claim=key, error=str(error))
                return False
            except (ConnectionFailed, ApiStatusError) as error:
                _log.warning("claim delayed", claim=key, error=str(error))
            await asyncio.sleep(_PAUSES.delay(failures))
        raise AssertionError

    async def _insist(self, key: str, write: Callable[[ResourceClaim], Awaitable[None]]) -> bool:
        """Writes to a claim as it is now, until it is written, or can not be."""
        claim = self._devices.claim(key)
        for failures in count(1):
            try:
                async with self._slots:
                    if claim is None:
                        namespace, _, name = key.partition("/")
                        claim = await self._client.get(CLAIMS, name, namespace)
                    await write(claim)
                return True
            except (Unfit, *_REFUSED) as error:
                _log.warning("claim refused", claim=key, error=str(error))
                return False
            except (ConnectionFailed, ApiStatusError) as error:
                if not isinstance(error, Conflict):
                    _log.warning("claim delayed", claim=key, error=str(error))
                claim = None
            await asyncio.sleep(_PAUSES.delay(failures))
        raise AssertionError

    async def _protect(self, claim: ResourceClaim, finalizers: list[str]) -> ResourceClaim:
        metadata: JsonObject = {**_precondition(claim), "finalizers": finalizers or None}
        known = claim.metadata
        return await self._client.patch(CLAIMS, known.name, {"metadata": metadata}, known.namespace)

    async def _write_status(self, claim: ResourceClaim, status: JsonObject) -> ResourceClaim:
        known = claim.metadata
        body: JsonObject = {"metadata": _precondition(claim), "status": status}
        return await self._client.patch(
            CLAIMS, known.name, body, known.namespace, subresource="status"
        )


def _precondition(claim: ResourceClaim) -> JsonObject:
    """What must still hold of a claim when it is written."""
    return {"uid": claim.metadata.uid, "resourceVersion": claim.metadata.resource_version}
