"""Authentication: a request becomes a user, anonymous, or a 401."""

import hashlib
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import given
from hypothesis import strategies as st

from kilonova.kube.client.transport import Request
from kilonova.kube.serving.certificates import CertificateAuthority
from kilonova.local.apimachinery.errors import ApiError
from kilonova.local.apiserver.auth import (
    Authenticator,
    InvalidToken,
    ServiceAccount,
    ServiceAccountTokenIssuer,
    SigningKey,
    StaticTokens,
    User,
    allows_anonymous,
)
from kilonova.local.apiserver.endpoints.request_info import parse_request_info
from kilonova.local.clock import IdGenerator

STATIC = StaticTokens.from_csv(
    'sesame,alice,1,"system:masters,team"\nplain,bob,2\n\n,nobody,3\nlone,carol,4,ops\n'
)
ALICE = User("alice", "1", ("system:masters", "team", "system:authenticated"))


def bearing(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.fixture
def authenticator(tokens: ServiceAccountTokenIssuer) -> Authenticator:
    return Authenticator(STATIC, tokens)


@pytest.mark.parametrize(
    ("token", "user"),
    [
        ("sesame", ALICE),
        ("plain", User("bob", "2", ("system:authenticated",))),
        ("lone", User("carol", "4", ("ops", "system:authenticated"))),
    ],
)
def test_static_token_is_looked_up(token: str, user: User):
    assert Authenticator(STATIC).authenticate(bearing(token), None) == user


def test_token_of_an_account_is_verified(
    authenticator: Authenticator, tokens: ServiceAccountTokenIssuer, account: ServiceAccount
):
    user = authenticator.authenticate(bearing(tokens.issue(account).token), None)
    assert user is not None
    assert user.name == "system:serviceaccount:apps:robot"
    assert user.groups[-1] == "system:authenticated"


@pytest.mark.parametrize(
    "header", ["", "Basic c2VzYW1l", "Bearer", "Bearer ", "Bearer  sesame", "sesame"]
)
def test_request_without_a_token_is_anonymous(authenticator: Authenticator, header: str):
    assert authenticator.authenticate({"authorization": header}, None) is None
    assert authenticator.authenticate({}, {}) is None


@pytest.mark.parametrize("header", ["bearer sesame", "BEARER sesame ", " Bearer sesame trailing"])
def test_authorization_scheme_is_parsed_as_in_kubernetes(authenticator: Authenticator, header: str):
    assert authenticator.authenticate({"authorization": header}, None) == ALICE


@pytest.mark.parametrize("token", ["wrong", "a.b.c", "sesame2", "Sesame", "é", "eyJ9.e30."])
def test_bad_token_is_unauthorized_and_in_no_message(authenticator: Authenticator, token: str):
    with pytest.raises(ApiError) as caught:
        authenticator.authenticate(bearing(token), None)
    assert (caught.value.code, caught.value.message) == (401, "Unauthorized")
    assert caught.value.__cause__ is None


def test_empty_token_of_the_file_is_not_accepted():
    with pytest.raises(InvalidToken):
        Authenticator(STATIC).review_token("")


@given(st.text(max_size=60))
def test_any_header_gives_a_user_anonymous_or_a_401(header: str):
    known = Authenticator(STATIC, ACCOUNTS)
    try:
        user = known.authenticate({"authorization": header}, None)
    except ApiError as error:
        user = error
    assert user is None or user == ALICE or (isinstance(user, ApiError) and user.code == 401)


@given(st.lists(st.text("eyJ0_-.=", max_size=8), min_size=3, max_size=3).map(".".join))
def test_anything_like_a_jwt_is_rejected(token: str):
    with pytest.raises(InvalidToken):
        ACCOUNTS.verify(token)


class _Still:
    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0


ACCOUNTS = ServiceAccountTokenIssuer(
    [SigningKey.create()],
    "https://test",
    ["https://test"],
    lambda *_: True,
    _Still(),
    IdGenerator(),
)
AUTHORITY = CertificateAuthority.create("ca", datetime(2026, 1, 1, tzinfo=UTC))


def der(user: str, groups: list[str]) -> bytes:
    pair = AUTHORITY.issue_client(user, groups, datetime(2026, 1, 1, tzinfo=UTC))
    certificate = x509.load_pem_x509_certificate(pair.cert_pem)
    return certificate.public_bytes(serialization.Encoding.DER)


def test_certificate_names_user_and_groups():
    certificate = der("alice", ["system:masters", "team"])
    fingerprint = hashlib.sha256(certificate).hexdigest()
    user = Authenticator().authenticate({}, certificate)
    assert user == User(
        "alice",
        "",
        ("system:masters", "team", "system:authenticated"),
        {"authentication.kubernetes.io/credential-id": (f"X509SHA256={fingerprint}",)},
    )


def test_certificate_as_described_by_ssl_names_the_same():
    described: Any = {
        "subject": (
            (("organizationName", "system:masters"),),
            (("organizationName", "team"), ("commonName", "alice")),
        )
    }
    user = Authenticator().authenticate({}, described)
    assert user == User("alice", "", ("system:masters", "team", "system:authenticated"))


def test_certificate_takes_precedence_over_a_token():
    user = Authenticator(STATIC).authenticate(bearing("wrong"), der("alice", []))
    assert user is not None
    assert user.name == "alice"


def test_certificate_without_a_name_is_anonymous():
    described: Any = {"subject": ((("organizationName", "team"),),)}
    assert Authenticator().authenticate({}, described) is None


def test_static_token_is_for_this_servers_audiences(authenticator: Authenticator):
    own = "https://kubernetes.default.svc"
    assert authenticator.review_token("sesame") == (ALICE, (own,))
    assert authenticator.review_token("sesame", ["x", own]) == (ALICE, (own,))
    with pytest.raises(InvalidToken):
        authenticator.review_token("sesame", ["x"])


def test_incomplete_line_is_reported_without_its_token():
    with pytest.raises(
        ValueError, match=r"line 2 must have at least 3 columns .* found 2"
    ) as caught:
        StaticTokens.from_csv("a,b,c\nhidden,bob")
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "open_to_all"),
    [
        ("/healthz", True),
        ("/livez", True),
        ("/readyz", True),
        ("/version", True),
        ("/", False),
        ("/versions", False),
        ("/healthz/../api", False),
        ("/api", False),
        ("/metrics", False),
        ("/openid/v1/jwks", False),
    ],
)
def test_anonymous_users_see_health_and_version_only(path: str, open_to_all: bool):
    info = parse_request_info(Request("GET", path))
    assert allows_anonymous(info) is open_to_all


@pytest.mark.parametrize(
    ("private", "why"),
    [
        (ec.generate_private_key(ec.SECP384R1()), "must be P-256"),
        (rsa.generate_private_key(public_exponent=65537, key_size=1024), "2048 bits or more"),
        (ed25519.Ed25519PrivateKey.generate(), "must be an ECDSA or RSA key"),
    ],
    ids=["P-384", "short RSA", "Ed25519"],
)
def test_key_that_cannot_sign_our_tokens_is_rejected(private: Any, why: str):
    pem = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    with pytest.raises(ValueError, match=why):
        SigningKey.load(pem)
