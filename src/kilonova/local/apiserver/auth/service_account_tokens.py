"""ServiceAccount tokens: issued for TokenRequest, verified on every request that carries one.

A token is a JWT with Kubernetes' claims. The signature of a token is verified once and its claims
are cached under the token's digest; its expiry and the objects that it is bound to are checked each
time, so that deleting a pod invalidates its token at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Literal

import msgspec

from kilonova.local.apimachinery.errors import FieldError, invalid, invalid_value
from kilonova.local.apiserver.auth.go_quoting import go_quote_list
from kilonova.local.apiserver.auth.signing_keys import SigningKey
from kilonova.local.apiserver.auth.user import CREDENTIAL_ID, User
from kilonova.local.clock import Clock, IdGenerator

DEFAULT_TOKEN_SECONDS = 3600
_MIN_TOKEN_SECONDS, _MAX_TOKEN_SECONDS = 600, 1 << 32
_LEEWAY_SECONDS = 60  # seconds of allowed clock skew; the same as in Kubernetes
_VERIFIED_CACHE_SIZE = 4096

MOUNTED_TOKEN_SECONDS = 3607
"""The lifetime of mounted tokens. Programs that read theirs only once can use it for a year, as in
Kubernetes: it is rotated long before, and is invalidated with its pod in any case."""
_EXTENDED_TOKEN_SECONDS = 365 * 24 * 3600

ObjectExists = Callable[[str, str, str, str], bool]
"""Whether an object exists: kind (`ServiceAccount`, `Pod`, `Secret`, `Node`), namespace (empty for
a node), name, uid."""


class InvalidToken(Exception):
    """The token is rejected; the message states why, and may be shown in a TokenReview."""


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """The account of a token."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class BoundObjectRef:
    """The object that a token is bound to. A pod may also have its node."""

    kind: Literal["Pod", "Secret", "Node"]
    name: str
    uid: str
    node_name: str = ""
    node_uid: str = ""


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A new token, and its expiry."""

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


class ServiceAccountTokenIssuer:
    """Issues and verifies the tokens of one issuer.

    The first of `keys` signs; all of them verify, so that a key can be replaced while its tokens
    are valid. `audiences` are those of this server, the default audiences of a token.
    """

    def __init__(
        self,
        keys: Sequence[SigningKey],
        issuer: str,
        audiences: Sequence[str],
        exists: ObjectExists,
        clock: Clock,
        id_generator: IdGenerator,
    ) -> None:
        self.keys = tuple(keys)
        self.issuer = issuer
        self.audiences = tuple(audiences)
        self._exists = exists
        self._clock = clock
        self._id_generator = id_generator
        self._by_id = {key.key_id: key for key in keys}
        self._verified: dict[bytes, _Claims] = {}

    def issue(
        self,
        account: ServiceAccount,
        audiences: Sequence[str] = (),
        seconds: int = DEFAULT_TOKEN_SECONDS,
        bound: BoundObjectRef | None = None,
    ) -> IssuedToken:
        """Issue a token for an account, for a TokenRequest; 422 for an invalid lifetime.

        The caller checks that the account and the bound object exist and belong together.
        """
        if problems := _validate_lifetime(seconds):
            raise invalid("authentication.k8s.io", "TokenRequest", "", problems)
        now = self._clock.now()
        issued = int(now.timestamp())
        lifetime, warn_after = seconds, None
        mounted = bound is not None and bound.kind == "Pod" and seconds == MOUNTED_TOKEN_SECONDS
        if mounted and set(audiences) <= set(self.audiences):
            lifetime, warn_after = _EXTENDED_TOKEN_SECONDS, issued + seconds
        claims = _Claims(
            iss=self.issuer,
            sub=_subject(account.namespace, account.name),
            aud=list(audiences or self.audiences),
            exp=issued + lifetime,
            iat=issued,
            nbf=issued,
            jti=self._id_generator.uid(),
            binding=_binding_claims(account, bound, warn_after),
        )
        import jwt  # it imports an HTTP client, and few clusters need a token early

        key = self.keys[0]
        token = jwt.PyJWS().encode(
            msgspec.json.encode(claims),
            key.private,
            algorithm=key.algorithm,
            headers={"kid": key.key_id, "typ": None},
        )
        return IssuedToken(token, now.replace(microsecond=0) + timedelta(seconds=seconds))

    def verify(self, token: str, audiences: Sequence[str] = ()) -> tuple[User, tuple[str, ...]]:
        """The user of a token, and the audiences it is valid for (this server's by default).

        Raises InvalidToken.
        """
        digest = sha256(token.encode("utf-8", "surrogatepass")).digest()
        claims = self._verified.get(digest)
        if claims is None:
            claims = self._verify_signature(token)
            if len(self._verified) >= _VERIFIED_CACHE_SIZE:
                del self._verified[next(iter(self._verified))]
            self._verified[digest] = claims
        target_audiences = tuple(audiences) or self.audiences
        shared = tuple(audience for audience in claims.aud if audience in target_audiences)
        if not shared:
            raise InvalidToken(
                f"token audiences {go_quote_list(claims.aud)} is invalid for the target audiences "
                f"{go_quote_list(target_audiences)}"
            )
        now = self._clock.now().timestamp()
        if now > claims.exp + _LEEWAY_SECONDS:
            self._verified.pop(digest, None)
            raise InvalidToken("service account token has expired")
        if now < claims.nbf - _LEEWAY_SECONDS:
            raise InvalidToken("service account token is not valid yet")
        self._check_bound_objects(claims.binding)
        return _user_from_claims(claims), shared

    def _verify_signature(self, token: str) -> _Claims:
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

    def _check_bound_objects(self, binding: _Binding) -> None:
        namespace, account = binding.namespace, binding.serviceaccount
        if not self._exists("ServiceAccount", namespace, account.name, account.uid):
            raise InvalidToken(f"service account {namespace}/{account.name} has been deleted")
        # The node of a pod is only informative: such a token is bound to the pod.
        bound = (
            ("Pod", namespace, binding.pod),
            ("Secret", namespace, binding.secret),
            ("Node", "", None if binding.pod else binding.node),
        )
        for kind, where, ref in bound:
            if ref is not None and not self._exists(kind, where, ref.name, ref.uid):
                raise InvalidToken("service account token has been invalidated")


def _validate_lifetime(seconds: int) -> list[FieldError]:
    path = "spec.expirationSeconds"
    if seconds < _MIN_TOKEN_SECONDS:
        return [invalid_value(path, seconds, "may not specify a duration less than 10 minutes")]
    if seconds > _MAX_TOKEN_SECONDS:
        return [invalid_value(path, seconds, "may not specify a duration larger than 2^32 seconds")]
    return []


def _binding_claims(
    account: ServiceAccount, bound: BoundObjectRef | None, warn_after: int | None
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


def _user_from_claims(claims: _Claims) -> User:
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
