"""Secrets of the type `kubernetes.io/service-account-token` get a token, and go with the account.

People still make such a secret by hand to have a token that does not run out. It gets one that is
bound to the secret itself: who deletes the secret ends the token.
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
    Part,
    Reflector,
    Resource,
    Watch,
)
from kilonova.kube.identity import Key
from kilonova.kube.transport import Request
from kilonova.local.controllers.workshop import Workshop

_TYPE = "kubernetes.io/service-account-token"
_NAME = "kubernetes.io/service-account.name"
_UID = "kubernetes.io/service-account.uid"
_LONGEST_SECONDS = 1 << 32
_BY_ACCOUNT = "account"


class TokenSecret(msgspec.Struct, frozen=True):
    """The fields of such a Secret that are looked at; its values are not decoded."""

    metadata: Metadata
    data: dict[str, str] = {}


class Account(msgspec.Struct, frozen=True):
    """The identity of a ServiceAccount."""

    metadata: Metadata


_SECRETS = Resource("", "v1", "secrets", "Secret", True, TokenSecret)
_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", True, Account)


def secret_token_parts(workshop: Workshop) -> Iterable[Part]:
    """serviceaccount-token-controller."""
    client = workshop.account("serviceaccount-token-controller")
    secrets = Reflector(client, _SECRETS, fields=f"type={_TYPE}")
    accounts = workshop.cache(_ACCOUNTS)
    return [secrets, SecretTokens(client, secrets, accounts, workshop.ca).controller]


class SecretTokens:
    """Fills the secrets of accounts that are there, and deletes those of accounts that are not."""

    def __init__(
        self,
        client: Client,
        secrets: Reflector[TokenSecret],
        accounts: Reflector[Account],
        ca: str,
    ) -> None:
        self._client = client
        self._secrets = secrets
        self._ca = b64encode(ca.encode()).decode()
        secrets.store.add_index(_BY_ACCOUNT, lambda secret: [_account_of(secret)])
        watches = [Watch(secrets), Watch(accounts, self._secrets_of)]
        self.controller = Controller("serviceaccount-token-controller", self._reconcile, watches)

    def _secrets_of(self, account: Account) -> list[Key]:
        key = (account.metadata.namespace, account.metadata.name)
        found = self._secrets.store.find(_BY_ACCOUNT, key)
        return [(each.metadata.namespace, each.metadata.name) for each in found]

    async def _reconcile(self, key: Key) -> None:
        secret = self._secrets.store.get(key)
        if secret is None or secret.metadata.deletion_timestamp:
            return
        namespace, name = _account_of(secret)
        try:
            # The cache may not know yet an account that was made just before its secret.
            account = (await self._client.get(_ACCOUNTS, name, namespace)).metadata
        except NotFound:
            account = None
        wanted_uid = secret.metadata.annotations.get(_UID)
        try:
            if account is None or wanted_uid not in (None, "", account.uid):
                uid = secret.metadata.uid
                await self._client.delete(_SECRETS, key[1], namespace, uid=uid)
            elif lacking := self._lacking(secret):
                if "token" in lacking:
                    lacking["token"] = await self._token(account, secret.metadata)
                patch = filling_patch(secret, account, lacking)
                await self._client.patch(_SECRETS, key[1], patch, namespace)
        except (NotFound, Conflict):
            return  # it changed since, and comes again

    def _lacking(self, secret: TokenSecret) -> dict[str, str]:
        """What the secret should hold and does not; the token itself is left empty."""
        wanted = {"ca.crt": self._ca} if secret.data.get("ca.crt") != self._ca else {}
        if not secret.data.get("namespace"):
            wanted["namespace"] = b64encode(secret.metadata.namespace.encode()).decode()
        if not secret.data.get("token"):
            wanted["token"] = ""
        return wanted

    async def _token(self, account: Metadata, secret: Metadata) -> str:
        reference = {"apiVersion": "v1", "kind": "Secret", "name": secret.name, "uid": secret.uid}
        body: JsonObject = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": _LONGEST_SECONDS, "boundObjectRef": reference},
        }
        path = f"/api/v1/namespaces/{account.namespace}/serviceaccounts/{account.name}/token"
        headers = {"content-type": "application/json"}
        reply = await self._client.send(
            Request("POST", path, headers=headers, body=msgspec.json.encode(body))
        )
        token: str = msgspec.json.decode(reply.body)["status"]["token"]
        return b64encode(token.encode()).decode()


def filling_patch(secret: TokenSecret, account: Metadata, data: dict[str, str]) -> JsonObject:
    """The merge patch that fills a secret, if it is still as it was seen."""
    notes = {_NAME: account.name, _UID: account.uid}
    version = secret.metadata.resource_version
    return {"metadata": {"resourceVersion": version, "annotations": notes}, "data": data}


def _account_of(secret: TokenSecret) -> Key:
    metadata = secret.metadata
    return metadata.namespace, metadata.annotations.get(_NAME, "")
