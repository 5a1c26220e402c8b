"""ServiceAccount tokens: issued for TokenRequest, verified on every request that bears one.

A token is a JWT with Kubernetes' claims. The signature of a token is verified once and its
claims are kept under the token's digest; its time and the objects that it is bound to are
looked at anew each time, so that deleting a pod ends its token at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Literal

import msgspec

from kilonova.local.auth.keys import SigningKey
from kilonova.local.auth.user import CREDENTIAL_ID, User
from kilonova.local.auth.words import quoted_list
from kilonova.local.clock import Clock, Identities
from kilonova.local.errors import Problem, invalid, invalid_value

DEFAULT_SECONDS = 3600
_LEAST_SECONDS, _MOST_SECONDS = 600, 1 << 32
_LEEWAY = 60  # seconds by which clocks may differ; Kubernetes grants as much
_REMEMBERED = 4096

MOUNTED_SECONDS = 3607
"""The lifetime that mounted tokens ask for. Programs that read theirs only once go on for a year
with it, as in Kubernetes: it is renewed long before, and ends with its pod in any case."""
_MOUNTED_FOR_OLD_PROGRAMS = 365 * 24 * 3600

Exists = Callable[[str, str, str, str], bool]
"""Whether an object is there: kind (`ServiceAccount`, `Pod`, `Secret`, `Node`), namespace (empty
for a node), name, uid."""


class InvalidToken(Exception):
    """The token is not accepted; the text says why, and is fit for a TokenReview."""


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """Whom a token is for."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class BoundObject:
    """What a token lives no longer than. A pod may also tell its node."""

    kind: Literal["Pod", "Secret", "Node"]
    name: str
    uid: str
    node_name: str = ""
    node_uid: str = ""


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new token, and when it ends."""

    token: str
    expires: datetime


class _Ref(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str = ""
    uid: str = ""


class _Binding(msgspec.Struct, frozen=True, omit_defaults=True):
    namespace: str
    serviceaccount: _Ref
    pod: _Ref | None = None
    secret: _Ref | None = None
    node: _Ref | None = None
    warnafter: int | None = None


class _Claims(msgspec.Struct, frozen=True):
    iss: str
    sub: str
    aud: list[str]
    exp: int
    iat: int
    nbf: int
    jti: str
    binding: _Binding = msgspec.field(name="kubernetes.io")


class ServiceAccountTokens:
    """Issues and verifies the tokens of one issuer.

    The first of `keys` signs; all of them verify, so that a key can be replaced while its tokens
    live. `audiences` are those of this server: what a token is for if nothing else is said.
    """

    def __init__(
        self,
        keys: Sequence[SigningKey],
        issuer: str,
        audiences: Sequence[str],
        exists: Exists,
        clock: Clock,
        identities: Identities,
    ) -> None:
        self.keys = tuple(keys)
        self.issuer = issuer
        self.audiences = tuple(audiences)
        self._exists = exists
        self._clock = clock
        self._identities = identities
        self._by_id = {key.key_id: key for key in keys}
        self._verified: dict[bytes, _Claims] = {}

    def issue(
        self,
        account: ServiceAccount,
        audiences: Sequence[str] = (),
        seconds: int = DEFAULT_SECONDS,
        bound: BoundObject | None = None,
    ) -> IssuedToken:
        """A token for an account, as TokenRequest asks; 422 for a lifetime out of bounds.

        That the account and the bound object exist and belong together is the caller's to see.
        """
        if problems := _lifetime_problems(seconds):
            raise invalid("authentication.k8s.io", "TokenRequest", "", problems)
        now = self._clock.now()
        issued = int(now.timestamp())
        lifetime, warn_after = seconds, None
        mounted = bound is not None and bound.kind == "Pod" and seconds == MOUNTED_SECONDS
        if mounted and set(audiences) <= set(self.audiences):
            lifetime, warn_after = _MOUNTED_FOR_OLD_PROGRAMS, issued + seconds
        claims = _Claims(
            iss=self.issuer,
            sub=_subject(account.namespace, account.name),
            aud=list(audiences or self.audiences),
            exp=issued + lifetime,
            iat=issued,
            nbf=issued,
            jti=self._identities.uid(),
            binding=_binding(account, bound, warn_after),
        )
        import jwt  # it brings an HTTP client of its own, and few clusters see a token at once

        key = self.keys[0]
        token = jwt.PyJWS().encode(
            msgspec.json.encode(claims),
            key.private,
            algorithm=key.algorithm,
            headers={"kid": key.key_id, "typ": None},
        )
        return IssuedToken(token, now.replace(microsecond=0) + timedelta(seconds=seconds))

    def verify(self, token: str, audiences: Sequence[str] = ()) -> tuple[User, tuple[str, ...]]:
        """Who bears the token, and for which of the audiences (this server's, if none is given).

        Raises InvalidToken.
        """
        digest = sha256(token.encode("utf-8", "surrogatepass")).digest()
        claims = self._verified.get(digest)
        if claims is None:
            claims = self._signed_claims(token)
            if len(self._verified) >= _REMEMBERED:
                del self._verified[next(iter(self._verified))]
            self._verified[digest] = claims
        wanted = tuple(audiences) or self.audiences
        shared = tuple(audience for audience in claims.aud if audience in wanted)
        if not shared:
            raise InvalidToken(
                f"token audiences {quoted_list(claims.aud)} is invalid for the target audiences "
                f"{quoted_list(wanted)}"
            )
        now = self._clock.now().timestamp()
        if now > claims.exp + _LEEWAY:
            self._verified.pop(digest, None)
            raise InvalidToken("service account token has expired")
        if now < claims.nbf - _LEEWAY:
            raise InvalidToken("service account token is not valid yet")
        self._require_objects(claims.binding)
        return _user(claims), shared

    def _signed_claims(self, token: str) -> _Claims:
        import jwt

        try:
            key = self._by_id.get(jwt.get_unverified_header(token).get("kid", ""))
            if key is None:
                raise InvalidToken("invalid signature, no keys found")
            verified = jwt.PyJWS().decode_complete(token, key.public, algorithms=[key.algorithm])
            claims = msgspec.json.decode(verified["payload"], type=_Claims)
        except (jwt.InvalidTokenError, msgspec.MsgspecError, TypeError, ValueError):
            raise InvalidToken("invalid bearer token") from None
        if claims.iss != self.issuer:
            raise InvalidToken(f'token issuer "{claims.iss}" is invalid')
        return claims

    def _require_objects(self, binding: _Binding) -> None:
        namespace, account = binding.namespace, binding.serviceaccount
        if not self._exists("ServiceAccount", namespace, account.name, account.uid):
            raise InvalidToken(f"service account {namespace}/{account.name} has been deleted")
        # The node of a pod is only told: such a token lives and dies with the pod.
        bound = (
            ("Pod", namespace, binding.pod),
            ("Secret", namespace, binding.secret),
            ("Node", "", None if binding.pod else binding.node),
        )
        for kind, where, ref in bound:
            if ref is not None and not self._exists(kind, where, ref.name, ref.uid):
                raise InvalidToken("service account token has been invalidated")


def _lifetime_problems(seconds: int) -> list[Problem]:
    path = "spec.expirationSeconds"
    if seconds < _LEAST_SECONDS:
        return [invalid_value(path, seconds, "may not specify a duration less than 10 minutes")]
    if seconds > _MOST_SECONDS:
        return [invalid_value(path, seconds, "may not specify a duration larger than 2^32 seconds")]
    return []


def _binding(
    account: ServiceAccount, bound: BoundObject | None, warn_after: int | None
) -> _Binding:
    pod = secret = node = None
    if bound is not None:
        ref = _Ref(bound.name, bound.uid)
        match bound.kind:
            case "Pod":
                pod = ref
                node = _Ref(bound.node_name, bound.node_uid) if bound.node_name else None
            case "Secret":
                secret = ref
            case "Node":
                node = ref
    own = _Ref(account.name, account.uid)
    return _Binding(account.namespace, own, pod, secret, node, warn_after)


def _subject(namespace: str, name: str) -> str:
    return f"system:serviceaccount:{namespace}:{name}"


def _user(claims: _Claims) -> User:
    binding = claims.binding
    extra: dict[str, tuple[str, ...]] = {CREDENTIAL_ID: (f"JTI={claims.jti}",)}
    for kind, ref in (("pod", binding.pod), ("node", binding.node)):
        if ref is not None:
            extra[f"authentication.kubernetes.io/{kind}-name"] = (ref.name,)
            if ref.uid:
                extra[f"authentication.kubernetes.io/{kind}-uid"] = (ref.uid,)
    return User(
        _subject(binding.namespace, binding.serviceaccount.name),
        binding.serviceaccount.uid,
        ("system:serviceaccounts", f"system:serviceaccounts:{binding.namespace}"),
        extra,
    )
