"""Objects of every namespace: the `default` ServiceAccount and the root CA ConfigMap.

Two controllers of one shape: an object of one name in every namespace that is not terminating. It
is restored when it is deleted or changed.
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
    Reflector,
    Resource,
    Runnable,
    Watch,
)
from kilonova.kube.informers.object_keys import Key
from kilonova.local.controllers.context import ControllerContext
from kilonova.local.controllers.namespace.controller import NAMESPACES, Namespace

_DESCRIPTION_ANNOTATION = "kubernetes.io/description"
_CA_DESCRIPTION = (
    "The certificate authority of this cluster's API. A pod that talks to the API "
    "verifies the server with it."
)


class ManagedObject(msgspec.Struct, frozen=True):
    """The fields of a ServiceAccount or ConfigMap that are checked."""

    metadata: Metadata
    data: dict[str, str] = {}


_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", True, ManagedObject)
_CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", True, ManagedObject)


def service_account_controllers(context: ControllerContext) -> Iterable[Runnable]:
    """serviceaccount-controller: the account `default`."""
    desired: JsonObject = {"metadata": {"name": "default"}}
    return _build_controllers(context, "service-account-controller", _ACCOUNTS, desired)


def root_ca_publisher_controllers(context: ControllerContext) -> Iterable[Runnable]:
    """root-ca-certificate-publisher-controller: the ConfigMap `kube-root-ca.crt`."""
    desired: JsonObject = {
        "metadata": {
            "name": "kube-root-ca.crt",
            "annotations": {_DESCRIPTION_ANNOTATION: _CA_DESCRIPTION},
        },
        "data": {"ca.crt": context.ca},
    }
    return _build_controllers(context, "root-ca-cert-publisher", _CONFIG_MAPS, desired)


def _build_controllers(
    context: ControllerContext, account: str, resource: Resource[ManagedObject], desired: JsonObject
) -> Iterable[Runnable]:
    client = context.client_for(account)
    present = Reflector(
        client, resource, field_selector=f"metadata.name={desired['metadata']['name']}"
    )
    object_controller = PerNamespaceObjectController(
        client, context.informer(NAMESPACES), present, desired
    )
    return [present, object_controller.controller(account)]


class PerNamespaceObjectController:
    """Maintains one object in every namespace. Keys are namespaces."""

    def __init__(
        self,
        client: Client,
        namespaces: Reflector[Namespace],
        present: Reflector[ManagedObject],
        desired: JsonObject,
    ) -> None:
        self._client = client
        self._namespaces = namespaces
        self._present = present
        self._desired = desired

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
        namespace_name, name = namespace.metadata.name, self._desired["metadata"]["name"]
        present = self._present.store.get((namespace_name, name))
        try:
            if present is None:
                await self._client.create(self._present.resource, self._desired, namespace_name)
            elif patch := build_repair_patch(present, self._desired):
                await self._client.patch(self._present.resource, name, patch, namespace_name)
        except (AlreadyExists, NotFound, Forbidden):
            return  # created by another client, or the namespace is terminating, since


def build_repair_patch(present: ManagedObject, desired: JsonObject) -> JsonObject | None:
    """The merge patch that restores an object's data and annotations; None if unchanged."""
    patch: JsonObject = {}
    data: dict[str, str] = desired.get("data", {})
    if data and present.data != data:
        patch["data"] = {**dict.fromkeys(present.data), **data}
    annotations: dict[str, str] = desired["metadata"].get("annotations", {})
    lacking = {
        key: text for key, text in annotations.items() if not present.metadata.annotations.get(key)
    }
    if lacking:
        patch["metadata"] = {"annotations": lacking}
    return patch or None
