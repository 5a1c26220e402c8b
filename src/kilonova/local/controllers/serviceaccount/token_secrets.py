"""Fills Secrets of type `kubernetes.io/service-account-token`, and deletes orphaned ones.

Users create such a Secret for a token that does not expire. The token is bound to the Secret:
deleting the Secret revokes the token.
"""

from base64 import b64encode
from collections.abc import Iterable

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.meta import Metadata
from kilonova.kube import (
    Client,
    Conflict,
    Controller,
    NotFound,
    Reflector,
    Resource,
    Runnable,
    Watch,
)
from kilonova.kube.client.transport import Request
from kilonova.kube.informers.object_keys import Key
from kilonova.local.controllers.context import ControllerContext

_TYPE = "kubernetes.io/service-account-token"
_ACCOUNT_NAME_ANNOTATION = "kubernetes.io/service-account.name"
_ACCOUNT_UID_ANNOTATION = "kubernetes.io/service-account.uid"
_TOKEN_EXPIRATION_SECONDS = 1 << 32
_BY_ACCOUNT = "account"


class TokenSecret(msgspec.Struct, frozen=True):
    """The fields of such a Secret that are used; its values are not decoded."""

    metadata: Metadata
    data: dict[str, str] = {}


class ServiceAccount(msgspec.Struct, frozen=True):
    """The identity of a ServiceAccount."""

    metadata: Metadata


_SECRETS = Resource("", "v1", "secrets", "Secret", True, TokenSecret)
_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", True, ServiceAccount)


def token_controllers(context: ControllerContext) -> Iterable[Runnable]:
    """serviceaccount-token-controller."""
    client = context.client_for("serviceaccount-token-controller")
    secrets = Reflector(client, _SECRETS, field_selector=f"type={_TYPE}")
    accounts = context.informer(_ACCOUNTS)
    return [secrets, TokensController(client, secrets, accounts, context.ca).controller]


class TokensController:
    """Fills the Secrets of existing accounts, and deletes those of deleted ones."""

    def __init__(
        self,
        client: Client,
        secrets: Reflector[TokenSecret],
        accounts: Reflector[ServiceAccount],
        ca: str,
    ) -> None:
        self._client = client
        self._secrets = secrets
        self._ca = b64encode(ca.encode()).decode()
        secrets.store.add_index(_BY_ACCOUNT, lambda secret: [_account_key(secret)])
        watches = [Watch(secrets), Watch(accounts, self._map_account_to_secrets)]
        self.controller = Controller("serviceaccount-token-controller", self._reconcile, watches)

    def _map_account_to_secrets(self, account: ServiceAccount) -> list[Key]:
        key = (account.metadata.namespace, account.metadata.name)
        found = self._secrets.store.by_index(_BY_ACCOUNT, key)
        return [(each.metadata.namespace, each.metadata.name) for each in found]

    async def _reconcile(self, key: Key) -> None:
        secret = self._secrets.store.get(key)
        if secret is None or secret.metadata.deletion_timestamp:
            return
        namespace, name = _account_key(secret)
        try:
            # The cache may not show an account yet that was created just before its Secret.
            account = (await self._client.get(_ACCOUNTS, name, namespace)).metadata
        except NotFound:
            account = None
        wanted_uid = secret.metadata.annotations.get(_ACCOUNT_UID_ANNOTATION)
        try:
            if account is None or wanted_uid not in (None, "", account.uid):
                uid = secret.metadata.uid
                await self._client.delete(_SECRETS, key[1], namespace, uid=uid)
            elif lacking := self._missing_data(secret):
                if "token" in lacking:
                    lacking["token"] = await self._request_token(account, secret.metadata)
                patch = build_secret_patch(secret, account, lacking)
                await self._client.patch(_SECRETS, key[1], patch, namespace)
        except (NotFound, Conflict):
            return  # it changed since: its event enqueues it again

    def _missing_data(self, secret: TokenSecret) -> dict[str, str]:
        """The missing data of the Secret; the token itself is left empty."""
        desired = {"ca.crt": self._ca} if secret.data.get("ca.crt") != self._ca else {}
        if not secret.data.get("namespace"):
            desired["namespace"] = b64encode(secret.metadata.namespace.encode()).decode()
        if not secret.data.get("token"):
            desired["token"] = ""
        return desired

    async def _request_token(self, account: Metadata, secret: Metadata) -> str:
        reference = {"apiVersion": "v1", "kind": "Secret", "name": secret.name, "uid": secret.uid}
        body: JsonObject = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": _TOKEN_EXPIRATION_SECONDS, "boundObjectRef": reference},
        }
        path = f"/api/v1/namespaces/{account.namespace}/serviceaccounts/{account.name}/token"
        headers = {"content-type": "application/json"}
        reply = await self._client.send(
            Request("POST", path, headers=headers, body=msgspec.json.encode(body))
        )
        token: str = msgspec.json.decode(reply.body)["status"]["token"]
        return b64encode(token.encode()).decode()


def build_secret_patch(secret: TokenSecret, account: Metadata, data: dict[str, str]) -> JsonObject:
    """The merge patch that fills a Secret, if it is unchanged since it was observed."""
    annotations = {_ACCOUNT_NAME_ANNOTATION: account.name, _ACCOUNT_UID_ANNOTATION: account.uid}
    version = secret.metadata.resource_version
    return {"metadata": {"resourceVersion": version, "annotations": annotations}, "data": data}


def _account_key(secret: TokenSecret) -> Key:
    metadata = secret.metadata
    return metadata.namespace, metadata.annotations.get(_ACCOUNT_NAME_ANNOTATION, "")
