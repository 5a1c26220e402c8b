"""ServiceAccount tokens: their claims, lifetime and invalidation."""

import base64
import hmac
import json
from datetime import UTC, datetime
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization

from kilonova.local.apimachinery.errors import ApiError
from kilonova.local.apiserver.auth import (
    BoundObjectRef,
    InvalidToken,
    ServiceAccount,
    ServiceAccountTokenIssuer,
    SigningKey,
    discovery_document,
    jwks,
)

ISSUER = "https://kubernetes.default.svc"


ROBOT = "system:serviceaccount:apps:robot"


def bearer(tokens: ServiceAccountTokenIssuer, token: str) -> str:
    return tokens.verify(token)[0].name


def rejection_of(tokens: ServiceAccountTokenIssuer, token: str, *audiences: str) -> str:
    with pytest.raises(InvalidToken) as caught:
        tokens.verify(token, audiences)
    assert token not in str(caught.value)
    return str(caught.value)


def test_token_identifies_its_service_account(
    tokens: ServiceAccountTokenIssuer, account: ServiceAccount
):
    issued = tokens.issue(account)
    user, audiences = tokens.verify(issued.token)
    assert user.name == "system:serviceaccount:apps:robot"
    assert user.uid == "uid-robot"
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:apps")
    assert list(user.extra) == ["authentication.kubernetes.io/credential-id"]
    assert audiences == (ISSUER,)


def test_token_has_the_claims_of_kubernetes(
    tokens: ServiceAccountTokenIssuer, account: ServiceAccount
):
    bound = BoundObjectRef("Pod", "web-0", "uid-pod", "node-1", "uid-node")
    issued = tokens.issue(account, ["vault"], 600, bound)
    assert issued.expires == datetime(2026, 1, 2, 3, 14, 5, tzinfo=UTC)
    header, payload = (
        json.loads(base64.urlsafe_b64decode(part + "==")) for part in issued.token.split(".")[:2]
    )
    assert header == {"alg": tokens.keys[0].algorithm, "kid": tokens.keys[0].key_id}
    jti = payload.pop("jti")
    assert len(jti) == 36
    assert payload == {
        "iss": ISSUER,
        "sub": "system:serviceaccount:apps:robot",
        "aud": ["vault"],
        "exp": 1767323645,
        "iat": 1767323045,
        "nbf": 1767323045,
        "kubernetes.io": {
            "namespace": "apps",
            "serviceaccount": {"name": "robot", "uid": "uid-robot"},
            "pod": {"name": "web-0", "uid": "uid-pod"},
            "node": {"name": "node-1", "uid": "uid-node"},
        },
    }


def test_others_can_verify_a_token_by_the_published_keys(
    tokens: ServiceAccountTokenIssuer, account: ServiceAccount
):
    published = jwt.PyJWKSet.from_dict(jwks(tokens.keys))
    token = tokens.issue(account, ["vault"]).token
    key = published[jwt.get_unverified_header(token)["kid"]]
    claims = jwt.decode(
        token, key, algorithms=[tokens.keys[0].algorithm], audience="vault", options=UNTIMED
    )
    assert claims["iss"] == ISSUER


UNTIMED: Any = {"verify_exp": False, "verify_iat": False, "verify_nbf": False}


def test_discovery_document_leads_to_the_keys(key: SigningKey):
    assert discovery_document(ISSUER, "127.0.0.1:6443", [key]) == {
        "issuer": ISSUER,
        "jwks_uri": "https://127.0.0.1:6443/openid/v1/jwks",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": [key.algorithm],
    }


@pytest.mark.parametrize(
    ("seconds", "why"),
    [
        (599, "may not specify a duration less than 10 minutes"),
        ((1 << 32) + 1, "may not specify a duration larger than 2^32 seconds"),
    ],
)
def test_lifetime_has_bounds(
    tokens: ServiceAccountTokenIssuer, account: ServiceAccount, seconds: int, why: str
):
    with pytest.raises(ApiError) as caught:
        tokens.issue(account, seconds=seconds)
    assert caught.value.code == 422
    assert caught.value.message == (
        'TokenRequest.authentication.k8s.io "" is invalid: '
        f"spec.expirationSeconds: Invalid value: {seconds}: {why}"
    )


def test_token_expires(cluster: Any, tokens: ServiceAccountTokenIssuer, account: ServiceAccount):
    token = tokens.issue(account, seconds=600).token
    cluster.advance(600 + 59)
    assert bearer(tokens, token) == ROBOT
    cluster.advance(2)
    assert rejection_of(tokens, token) == "service account token has expired"
    assert rejection_of(tokens, token) == "service account token has expired"


def test_token_from_the_future_is_not_valid_yet(
    cluster: Any, tokens: ServiceAccountTokenIssuer, account: ServiceAccount
):
    token = tokens.issue(account).token
    cluster.advance(-120)
    assert rejection_of(tokens, token) == "service account token is not valid yet"


def test_deleting_the_account_invalidates_its_tokens(
    cluster: Any, tokens: ServiceAccountTokenIssuer, account: ServiceAccount
):
    token = tokens.issue(account).token
    assert bearer(tokens, token) == ROBOT
    cluster.objects = {("ServiceAccount", "apps", "robot", "uid-of-a-new-robot")}
    assert rejection_of(tokens, token) == "service account apps/robot has been deleted"


@pytest.mark.parametrize(("kind", "namespace"), [("Pod", "apps"), ("Secret", "apps"), ("Node", "")])
def test_token_is_invalidated_with_its_bound_object(
    cluster: Any,
    tokens: ServiceAccountTokenIssuer,
    account: ServiceAccount,
    kind: Any,
    namespace: str,
):
    cluster.objects.add((kind, namespace, "it", "uid-it"))
    token = tokens.issue(account, bound=BoundObjectRef(kind, "it", "uid-it")).token
    assert bearer(tokens, token) == ROBOT
    cluster.objects.remove((kind, namespace, "it", "uid-it"))
    assert rejection_of(tokens, token) == "service account token has been invalidated"


def test_pod_token_names_pod_and_node_and_outlives_the_node(
    cluster: Any, tokens: ServiceAccountTokenIssuer, account: ServiceAccount
):
    cluster.objects.add(("Pod", "apps", "web-0", "uid-pod"))
    bound = BoundObjectRef("Pod", "web-0", "uid-pod", "node-1", "uid-node")
    user, _ = tokens.verify(tokens.issue(account, bound=bound).token)
    prefix = "authentication.kubernetes.io"
    assert {key: value for key, value in user.extra.items() if "credential" not in key} == {
        f"{prefix}/pod-name": ("web-0",),
        f"{prefix}/pod-uid": ("uid-pod",),
        f"{prefix}/node-name": ("node-1",),
        f"{prefix}/node-uid": ("uid-node",),
    }


def test_token_is_for_its_audiences_only(
    tokens: ServiceAccountTokenIssuer, account: ServiceAccount
):
    token = tokens.issue(account, ["vault", "mesh"]).token
    assert tokens.verify(token, ["mesh", "other"])[1] == ("mesh",)
    assert rejection_of(tokens, token) == (
        f'token audiences ["vault" "mesh"] is invalid for the target audiences ["{ISSUER}"]'
    )


def test_replaced_key_still_verifies(cluster: Any, key: SigningKey, account: ServiceAccount):
    token = cluster.tokens(key).issue(account).token
    successor = SigningKey.create()
    assert bearer(cluster.tokens(successor, key), token) == ROBOT
    assert "no keys found" in rejection_of(cluster.tokens(successor), token)


def test_token_of_another_issuer_is_rejected(
    cluster: Any, key: SigningKey, account: ServiceAccount
):
    token = cluster.tokens(key, issuer="https://elsewhere.test").issue(account).token
    assert (
        rejection_of(cluster.tokens(key), token)
        == 'token issuer "https://elsewhere.test" is invalid'
    )


def forged(tokens: ServiceAccountTokenIssuer, token: str) -> list[str]:
    header, payload, signature = token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    claims["kubernetes.io"]["serviceaccount"]["name"] = "admin"
    changed = _base64url(json.dumps(claims).encode())
    kid = {"kid": tokens.keys[0].key_id}
    public = tokens.keys[0].public.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    confused = f"{_base64url(json.dumps({'alg': 'HS256', **kid}).encode())}.{changed}"
    mac = _base64url(hmac.digest(public, confused.encode(), "sha256"))
    return [
        f"{header}.{changed}.{signature}",
        f"{header}.{payload}.",
        f"{header}.{payload}",
        jwt.encode(claims, "", algorithm="none", headers=kid),
        f"{confused}.{mac}",
        jwt.PyJWS().encode(
            b"[]", tokens.keys[0].private, algorithm=tokens.keys[0].algorithm, headers=kid
        ),
    ]


def _base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def test_forged_tokens_are_rejected(tokens: ServiceAccountTokenIssuer, account: ServiceAccount):
    token = tokens.issue(account).token
    assert bearer(tokens, token) == ROBOT
    assert {rejection_of(tokens, fake) for fake in forged(tokens, token)} == {
        "invalid bearer token"
    }


def test_key_survives_its_file(cluster: Any, key: SigningKey, account: ServiceAccount):
    loaded = SigningKey.load(key.pem)
    assert loaded.key_id == key.key_id
    token = cluster.tokens(loaded).issue(account).token
    assert bearer(cluster.tokens(key), token) == ROBOT
