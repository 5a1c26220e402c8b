"""Tokens for pods: asked for once, and again when four fifths of their time are over."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import msgspec

from kilonova.api.json import JsonObject
from kilonova.api.times import parse_time
from kilonova.kube import Client, KubeError
from kilonova.kube.resource import plain
from kilonova.kube.transport import Request
from kilonova.local.nodes.process.kubelet.payloads import VolumeError
from kilonova.local.nodes.process.kubelet.pods import Pod

_ACCOUNTS = plain("", "v1", "serviceaccounts", "ServiceAccount", True)
_DEFAULT_SECONDS = 3600
_FRACTION = 0.8
_OLDEST = timedelta(hours=24)
_PAUSE = timedelta(seconds=10)


class _Spec(msgspec.Struct, rename="camel"):
    expiration_seconds: int


class _Status(msgspec.Struct, rename="camel"):
    token: str
    expiration_timestamp: str


class _Answer(msgspec.Struct):
    spec: _Spec
    status: _Status


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    refresh: datetime
    expires: datetime


class PodTokens:
    """The tokens of one pod, by volume and place in it."""

    def __init__(self, client: Client, now: Callable[[], datetime]) -> None:
        self._client = client
        self._now = now
        self._tokens: dict[tuple[str, int], _Token] = {}

    def text(self, volume: str, index: int) -> str:
        """The token as it is now; it was asked for before."""
        return self._tokens[volume, index].text

    def seconds_to_refresh(self) -> float | None:
        """How long the tokens are good without being asked for again."""
        times = [each.refresh for each in self._tokens.values()]
        return max(0.0, (min(times) - self._now()).total_seconds()) if times else None

    async def ensure(self, pod: Pod, volume: str, index: int, source: JsonObject) -> None:
        """Have a good token. `VolumeError` if there is none; an old one is used while it lasts."""
        key, now = (volume, index), self._now()
        known = self._tokens.get(key)
        if known is not None and now < known.refresh:
            return
        try:
            self._tokens[key] = await self._request(pod, source)
        except KubeError as error:
            if known is not None:
                self._tokens[key] = replace(known, refresh=now + _PAUSE)
            if known is None or now >= known.expires:
                raise VolumeError(f"failed to fetch token: {error}") from error

    async def _request(self, pod: Pod, source: JsonObject) -> _Token:
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
        answer = msgspec.json.decode(reply.body, type=_Answer)
        expires = parse_time(answer.status.expiration_timestamp)
        life = timedelta(seconds=answer.spec.expiration_seconds)
        issued = expires - life
        return _Token(answer.status.token, issued + min(life * _FRACTION, _OLDEST), expires)
