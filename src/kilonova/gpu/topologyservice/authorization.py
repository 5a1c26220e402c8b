"""Authorization of callers: the API server of the cluster decides.

A caller shows a bearer token, which a TokenReview authenticates; a SubjectAccessReview then decides
whether that user may `get` the path, as for any URL of Kubernetes that is no resource. Both answers
are remembered for a short time, by a digest of the token.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping

import msgspec

from kilonova.kube import Client, KubeError, Request

_REMEMBERED_SECONDS = 10.0
_MAX_REMEMBERED = 4096
_MAX_TOKEN = 16 * 1024


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class _TokenReviewStatus(msgspec.Struct):
    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)


class _TokenReview(msgspec.Struct):
    status: _TokenReviewStatus = msgspec.field(default_factory=_TokenReviewStatus)


class _AccessStatus(msgspec.Struct):
    allowed: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus = msgspec.field(default_factory=_AccessStatus)


class AccessDenied(Exception):
    """The caller may not ask; `status` is 401 without a valid token, 403 without permission, 503
    where the API server does not answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Authorizer:
    """Decides for bearer tokens. `monotonic` is a clock in seconds."""

    def __init__(self, client: Client, monotonic: Callable[[], float]) -> None:
        self._client = client
        self._monotonic = monotonic
        self._allowed: OrderedDict[tuple[bytes, str], float] = OrderedDict()

    async def require(self, headers: Mapping[str, str], path: str) -> None:
        """Return if the caller may get the path; otherwise `AccessDenied`."""
        token = _bearer_token(headers.get("authorization", ""))
        key = hashlib.sha256(token.encode()).digest(), path
        until = self._allowed.get(key)
        if until is not None and self._monotonic() < until:
            return
        try:
            user = await self._authenticate(token)
            if not await self._is_allowed(user, path):
                raise AccessDenied(
                    403, f'user "{user.username}" cannot get {path}: grant it in a ClusterRole'
                )
        except KubeError as error:
            raise AccessDenied(503, f"the access review failed: {error}") from error
        self._allowed[key] = self._monotonic() + _REMEMBERED_SECONDS
        self._allowed.move_to_end(key)
        while len(self._allowed) > _MAX_REMEMBERED:
            self._allowed.popitem(last=False)

    async def _authenticate(self, token: str) -> _User:
        review = await self._review(
            "/apis/authentication.k8s.io/v1/tokenreviews",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenReview",
                "spec": {"token": token},
            },
        )
        status = msgspec.json.decode(review, type=_TokenReview).status
        if not status.authenticated:
            raise AccessDenied(401, "the bearer token is not valid for this cluster")
        return status.user

    async def _is_allowed(self, user: _User, path: str) -> bool:
        review = await self._review(
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "spec": {
                    "user": user.username,
                    "uid": user.uid,
                    "groups": user.groups,
                    "extra": user.extra,
                    "nonResourceAttributes": {"path": path, "verb": "get"},
                },
            },
        )
        return msgspec.json.decode(review, type=_AccessReview).status.allowed

    async def _review(self, path: str, body: Mapping[str, object]) -> bytes:
        headers = {"content-type": "application/json"}
        request = Request("POST", path, headers=headers, body=msgspec.json.encode(body))
        return (await self._client.send(request)).body


def _bearer_token(header: str) -> str:
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer" or not token.strip() or len(token) > _MAX_TOKEN:
        raise AccessDenied(401, "no bearer token: send Authorization: Bearer TOKEN")
    return token.strip()
