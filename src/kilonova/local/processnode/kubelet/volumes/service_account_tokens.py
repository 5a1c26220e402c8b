"""Service account tokens of pods, renewed after 80 % of their lifetime."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.times import parse_time
from kilonova.kube import Client, KubeError
from kilonova.kube.client.resource import unstructured_resource
from kilonova.kube.client.transport import Request
from kilonova.local.processnode.kubelet.objects import Pod
from kilonova.local.processnode.kubelet.volumes.projection import VolumeError

_ACCOUNTS = unstructured_resource("", "v1", "serviceaccounts", "ServiceAccount", True)
_DEFAULT_SECONDS = 3600
_REFRESH_FRACTION = 0.8
_MAX_TOKEN_AGE = timedelta(hours=24)
_RETRY_DELAY = timedelta(seconds=10)


class _Spec(msgspec.Struct, rename="camel"):
    expiration_seconds: int


class _Status(msgspec.Struct, rename="camel"):
    token: str
    expiration_timestamp: str


class _TokenReply(msgspec.Struct):
    spec: _Spec
    status: _Status


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    refresh: datetime
    expires: datetime


class ServiceAccountTokens:
    """The tokens of one pod, by volume and index of the source."""

    def __init__(self, client: Client, now: Callable[[], datetime]) -> None:
        self._client = client
        self._now = now
        self._tokens: dict[tuple[str, int], _Token] = {}

    def get_token(self, volume: str, index: int) -> str:
        """The current token, which `ensure_token` requested before."""
        return self._tokens[volume, index].text

    def seconds_to_refresh(self) -> float | None:
        """Seconds until the first token has to be renewed."""
        times = [each.refresh for each in self._tokens.values()]
        return max(0.0, (min(times) - self._now()).total_seconds()) if times else None

    async def ensure_token(self, pod: Pod, volume: str, index: int, source: JsonObject) -> None:
        """Request a token if needed. `VolumeError` without one; an old token is used while it is
        valid.
        """
        key, now = (volume, index), self._now()
        token = self._tokens.get(key)
        if token is not None and now < token.refresh:
            return
        try:
            self._tokens[key] = await self._request_token(pod, source)
        except KubeError as error:
            if token is not None:
                self._tokens[key] = replace(token, refresh=now + _RETRY_DELAY)
            if token is None or now >= token.expires:
                raise VolumeError(f"failed to fetch token: {error}") from error

    async def _request_token(self, pod: Pod, source: JsonObject) -> _Token:
        audience = source.get("audience")
        reference = {"apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.uid}
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": [audience] if audience else [],
                "expirationSeconds": source.get("expirationSeconds", _DEFAULT_SECONDS),
                "boundObjectRef": reference,
            },
        }
        account = pod.spec.service_account_name
        path = _ACCOUNTS.path(pod.metadata.namespace, account, "token")
        headers = {"accept": "application/json", "content-type": "application/json"}
        reply = await self._client.send(
            Request("POST", path, [], headers, msgspec.json.encode(body))
        )
        answer = msgspec.json.decode(reply.body, type=_TokenReply)
        expires = parse_time(answer.status.expiration_timestamp)
        lifetime = timedelta(seconds=answer.spec.expiration_seconds)
        issued = expires - lifetime
        return _Token(
            answer.status.token, issued + min(lifetime * _REFRESH_FRACTION, _MAX_TOKEN_AGE), expires
        )
