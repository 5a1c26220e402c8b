"""What every namespace has: the account of its pods, and the authority that they verify us with.

Two controllers of one shape: an object of one name in every namespace that is not going. Taken
away or changed, it comes back.
"""

from collections.abc import Iterable

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.kube import (
    AlreadyExists,
    Client,
    Controller,
    Forbidden,
    NotFound,
    Part,
    Reflector,
    Resource,
    Watch,
)
from kilonova.kube.identity import Key
from kilonova.local.controllers.namespaces import NAMESPACES, Namespace
from kilonova.local.controllers.workshop import Workshop

_NOTE = "kubernetes.io/description"
_NOTE_TEXT = (
    "The certificate authority of this cluster's API. A pod that talks to the API "
    "verifies the server with it."
)


class Furniture(msgspec.Struct, frozen=True):
    """The fields of a ServiceAccount or ConfigMap that are looked at."""

    metadata: Metadata
    data: dict[str, str] = {}


_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", True, Furniture)
_CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", True, Furniture)


def account_parts(workshop: Workshop) -> Iterable[Part]:
    """serviceaccount-controller: the account `default`."""
    wanted: JsonObject = {"metadata": {"name": "default"}}
    return _parts(workshop, "service-account-controller", _ACCOUNTS, wanted)


def authority_parts(workshop: Workshop) -> Iterable[Part]:
    """root-ca-certificate-publisher-controller: the ConfigMap `kube-root-ca.crt`."""
    wanted: JsonObject = {
        "metadata": {"name": "kube-root-ca.crt", "annotations": {_NOTE: _NOTE_TEXT}},
        "data": {"ca.crt": workshop.ca},
    }
    return _parts(workshop, "root-ca-cert-publisher", _CONFIG_MAPS, wanted)


def _parts(
    workshop: Workshop, account: str, resource: Resource[Furniture], wanted: JsonObject
) -> Iterable[Part]:
    client = workshop.account(account)
    present = Reflector(client, resource, fields=f"metadata.name={wanted['metadata']['name']}")
    furnishing = _Furnishing(client, workshop.cache(NAMESPACES), present, wanted)
    return [present, furnishing.controller(account)]


class _Furnishing:
    """Keeps one object in every namespace. Keys are namespaces."""

    def __init__(
        self,
        client: Client,
        namespaces: Reflector[Namespace],
        present: Reflector[Furniture],
        wanted: JsonObject,
    ) -> None:
        self._client = client
        self._namespaces = namespaces
        self._present = present
        self._wanted = wanted

    def controller(self, name: str) -> Controller:
        watches = [
            Watch(self._namespaces),
            Watch(self._present, lambda obj: [("", obj.metadata.namespace)]),
        ]
        return Controller(name, self._reconcile, watches, workers=4)

    async def _reconcile(self, key: Key) -> None:
        namespace = self._namespaces.store.get(key)
        if namespace is None or namespace.metadata.deletion_timestamp:
            return
        where, name = namespace.metadata.name, self._wanted["metadata"]["name"]
        present = self._present.store.get((where, name))
        try:
            if present is None:
                await self._client.create(self._present.resource, self._wanted, where)
            elif patch := amendment(present, self._wanted):
                await self._client.patch(self._present.resource, name, patch, where)
        except (AlreadyExists, NotFound, Forbidden):
            return  # somebody was faster, or the namespace is going, since


def amendment(present: Furniture, wanted: JsonObject) -> JsonObject | None:
    """The merge patch that gives an object its data and note back; None: it has them."""
    patch: JsonObject = {}
    data: dict[str, str] = wanted.get("data", {})
    if data and present.data != data:
        patch["data"] = {**dict.fromkeys(present.data), **data}
    notes: dict[str, str] = wanted["metadata"].get("annotations", {})
    lacking = {
        key: text for key, text in notes.items() if not present.metadata.annotations.get(key)
    }
    if lacking:
        patch["metadata"] = {"annotations": lacking}
    return patch or None
