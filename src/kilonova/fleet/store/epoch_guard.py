"""What a member does with epochs: it accepts no lower one than it ever did."""

from typing import Protocol

import msgspec

from kilonova.api.json import JsonObject
from kilonova.fleet.store.epochs import format_epoch
from kilonova.kube.client.client import Client
from kilonova.kube.client.errors import AlreadyExists, Conflict, NotFound
from kilonova.kube.client.resource import Resource

CONFIG_MAP = "kilonova-fleet-member"
_EPOCH = "epoch"


class EpochStore(Protocol):
    """Where a member keeps the highest accepted epoch: in its own cluster, not in the fleet's
    store, which may be replaced."""

    async def read(self) -> int:
        """The highest accepted epoch; 0 if there is none."""
        ...

    async def raise_to(self, epoch: int) -> int:
        """Raise it to an epoch, unless it is higher; returns what it is then."""
        ...


class EpochRefused(Exception):
    """What an earlier leader decided must not be applied."""

    def __init__(self, epoch: int, accepted: int) -> None:
        self.epoch = epoch
        self.accepted = accepted
        super().__init__(
            f"epoch {format_epoch(epoch)} is refused: epoch {format_epoch(accepted)} was accepted "
            "before; its manager no longer leads, or uses a former endpoint"
        )


class EpochGuard:
    """Checks epochs before what they decided is applied."""

    def __init__(self, store: EpochStore) -> None:
        self._store = store
        self._accepted: int | None = None

    @property
    def accepted(self) -> int:
        """The highest accepted epoch, as far as it was read; 0 if there is none."""
        return self._accepted or 0

    async def load(self) -> int:
        """Read the highest accepted epoch."""
        self._accepted = max(await self._store.read(), self.accepted)
        return self._accepted

    async def accept(self, epoch: int) -> None:
        """Accept an epoch: `EpochRefused` if it is lower than one accepted before.

        A higher one is recorded first: after a restart it is still known. Two agents of one member
        may both call this: what counts is the record.
        """
        accepted = await self.load() if self._accepted is None else self._accepted
        if epoch > accepted:
            accepted = self._accepted = await self._store.raise_to(epoch)
        if epoch < accepted:
            raise EpochRefused(epoch, accepted)


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""


class _ConfigMap(msgspec.Struct, frozen=True):
    metadata: _Metadata
    data: dict[str, str] = {}


_CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", True, _ConfigMap)


class ApiEpochStore:
    """The epoch in a ConfigMap of the member's API."""

    def __init__(self, client: Client, namespace: str, name: str = CONFIG_MAP) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name

    async def read(self) -> int:
        try:
            found = await self._client.get(_CONFIG_MAPS, self._name, self._namespace)
        except NotFound:
            return 0
        return self._decode(found)

    async def raise_to(self, epoch: int) -> int:
        while True:
            try:
                found = await self._client.get(_CONFIG_MAPS, self._name, self._namespace)
            except NotFound:
                if await self._create(epoch):
                    return epoch
                continue
            current = self._decode(found)
            if current >= epoch:
                return current
            patch: JsonObject = {
                "metadata": {"resourceVersion": found.metadata.resource_version},
                "data": {_EPOCH: str(epoch)},
            }
            try:
                await self._client.patch(_CONFIG_MAPS, self._name, patch, self._namespace)
                return epoch
            except (Conflict, NotFound):
                continue

    async def _create(self, epoch: int) -> bool:
        body: JsonObject = {"metadata": {"name": self._name}, "data": {_EPOCH: str(epoch)}}
        try:
            await self._client.create(_CONFIG_MAPS, body, self._namespace)
        except AlreadyExists:
            return False
        return True

    def _decode(self, found: _ConfigMap) -> int:
        text = found.data.get(_EPOCH, "0")
        if not text.isdecimal():
            raise ValueError(
                f"ConfigMap {self._namespace}/{self._name}: data.{_EPOCH} is {text!r}, must be the "
                "highest epoch that the member accepted; see `status.epoch` of its Cluster"
            )
        return int(text)
