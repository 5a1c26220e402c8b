"""One of the three stores: reading and writing an acceptor in it."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from kilonova.fleet.store.quorum.register import (
    Acceptor,
    AcceptorState,
    Ballot,
    decode_acceptor,
    encode_acceptor,
)
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.objectstore import (
    IF_ABSENT,
    ListPage,
    NotFound,
    ObjectStore,
    ObjectStoreError,
    PreconditionFailed,
    Unavailable,
    if_match,
)

T = TypeVar("T")

log = get_logger(__name__)

FOLDER = "quorum/"
"""Before all keys: what one store alone holds has another format."""

_STALL_SECONDS = 5.0
_MAX_REQUEST_SECONDS = 10.0
"""After this time a request is given up, so that the store is tried again."""
_MAX_CONFLICTS = 8


class Replica:
    """One of the stores. A store that does not answer gets no further requests until it does."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self._started: dict[int, float] = {}
        self._requests = 0
        self._failing = False

    @property
    def name(self) -> str:
        return self.store.name

    async def read(self, key: str) -> Acceptor:
        """The acceptor of a key."""
        return await self._run(self._get(key))

    async def promise(self, key: str, ballot: Ballot, known: Acceptor | None) -> Acceptor | None:
        """Promise a ballot; None if a higher one was promised. Returns what was promised upon."""
        for _ in range(_MAX_CONFLICTS):
            acceptor = known or await self.read(key)
            if acceptor.state.promised == ballot:
                return acceptor  # the request arrived although its reply did not
            if acceptor.state.promised > ballot:
                return None
            state = AcceptorState(ballot, acceptor.state.accepted, acceptor.state.value)
            etag = await self._replace(key, acceptor, state, acceptor.body)
            if etag is not None:
                return Acceptor(state, acceptor.body, etag)
            known = None
        raise self._too_many_conflicts(key)

    async def accept(
        self, key: str, state: AcceptorState, body: bytes, known: Acceptor | None
    ) -> Acceptor | None:
        """Accept a value; None if a higher ballot was promised."""
        for _ in range(_MAX_CONFLICTS):
            acceptor = known or await self.read(key)
            if acceptor.state.accepted == state.accepted:
                return acceptor  # as above
            if acceptor.state.promised > state.accepted:
                return None
            etag = await self._replace(key, acceptor, state, body)
            if etag is not None:
                return Acceptor(state, body, etag)
            known = None
        raise self._too_many_conflicts(key)

    async def list_page(self, prefix: str, after: str, limit: int) -> ListPage:
        """A page of keys, with `FOLDER` before each."""
        start = FOLDER + after if after else ""
        return await self._run(self.store.list_page(FOLDER + prefix, start, limit))

    async def _replace(
        self, key: str, acceptor: Acceptor, state: AcceptorState, body: bytes
    ) -> str | None:
        """The new ETag; None if the acceptor has changed since it was read."""
        when = IF_ABSENT if acceptor.etag is None else if_match(acceptor.etag)
        content = encode_acceptor(state, body)
        try:
            info = await self._run(self.store.put(FOLDER + key, content, when))
        except PreconditionFailed:
            return None
        return info.etag

    async def _get(self, key: str) -> Acceptor:
        try:
            found = await self.store.get(FOLDER + key)
        except NotFound as error:
            if error.fix:
                raise  # the bucket is missing, not the object
            return Acceptor()
        return decode_acceptor(f"{self.name}/{FOLDER}{key}", found.body, found.info.etag)

    async def _run(self, request: Coroutine[Any, Any, T]) -> T:
        """A request, unless an earlier one hangs."""
        now = asyncio.get_running_loop().time()
        if self._started and now - min(self._started.values()) > _STALL_SECONDS:
            request.close()
            raise Unavailable(self.name, f"no response for {_STALL_SECONDS:.0f} s")
        self._requests += 1
        number = self._requests
        self._started[number] = now
        try:
            async with asyncio.timeout(_MAX_REQUEST_SECONDS):
                result = await request
        except TimeoutError:
            error = Unavailable(self.name, f"no response for {_MAX_REQUEST_SECONDS:.0f} s")
            self._note(error)
            raise error from None
        except PreconditionFailed:
            self._note(None)
            raise
        except ObjectStoreError as error:
            self._note(error)
            raise
        finally:
            del self._started[number]
        self._note(None)
        return result

    def _note(self, error: ObjectStoreError | None) -> None:
        """Log the first of consecutive failures, and the end of them."""
        if (error is not None) == self._failing:
            return
        self._failing = error is not None
        if error is not None:
            log.warning("store of the quorum not available", store=self.name, error=str(error))
        else:
            log.info("store of the quorum available again", store=self.name)

    def _too_many_conflicts(self, key: str) -> Unavailable:
        return Unavailable(f"{self.name}/{key}", "too many concurrent writers", "try again")
