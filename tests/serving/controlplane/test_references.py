"""What gateways get of the Secrets that a service refers to, and what is wrong with them."""

import base64
from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from kilonova.api.serving import (
    ApiKeys,
    Auth,
    Gateway,
    GatewayTls,
    InferenceServiceSpec,
    JwtProvider,
    SecretKey,
    ServerGroup,
)
from kilonova.kube.serving.certificates import CertificateAuthority
from kilonova.serving.controlplane.references import (
    ResolvedSecrets,
    list_referenced_secrets,
    resolve_secrets,
)

_NOW = datetime.now(UTC)
_CA = CertificateAuthority.create("test", _NOW)
_PAIR = _CA.issue_server(["web"], _NOW)
_OTHER = _CA.issue_server(["other"], _NOW)
_DIGEST = "0" * 64

_SERVERS = (ServerGroup(name="main"),)
_JWT = InferenceServiceSpec(
    servers=_SERVERS,
    auth=Auth(
        jwt=(
            JwtProvider(name="local", issuer="us", jwks_secret=SecretKey("jwks")),
            JwtProvider(name="remote", issuer="them", jwks_uri="https://example.com/jwks"),
        )
    ),
)
_KEYS = InferenceServiceSpec(servers=_SERVERS, auth=Auth(api_keys=ApiKeys("keys")))
_TLS = InferenceServiceSpec(
    servers=_SERVERS,
    gateway=Gateway(tls=GatewayTls("tls", client_ca_secret="ca")),
)


def encode(**data: str | bytes) -> dict[str, str]:
    return {
        name.replace("_", "."): base64.b64encode(
            value.encode() if isinstance(value, str) else value
        ).decode()
        for name, value in data.items()
    }


def resolve(spec: InferenceServiceSpec, **found: Mapping[str, str] | str) -> ResolvedSecrets:
    return resolve_secrets(spec, found)


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        (InferenceServiceSpec(servers=_SERVERS), set()),
        (_JWT, {"jwks"}),
        (_KEYS, {"keys"}),
        (_TLS, {"tls", "ca"}),
    ],
)
def test_only_secrets_that_are_named_are_read(spec: InferenceServiceSpec, names: set[str]) -> None:
    assert list_referenced_secrets(spec) == names


def test_certificate_and_authority_of_clients_are_those_of_the_secrets() -> None:
    tls = encode(tls_crt=_PAIR.cert_pem, tls_key=_PAIR.key_pem)
    secrets = resolve(_TLS, tls=tls, ca=encode(ca_crt=_CA.cert_pem)).secrets
    assert secrets.problems == ()
    assert secrets.tls is not None
    assert secrets.tls.certificate == _PAIR.cert_pem.decode()
    assert secrets.tls.client_ca == _CA.cert_pem.decode()


def test_keys_of_clients_are_digests() -> None:
    found = resolve(_KEYS, keys=encode(bob=f"sha256:{_DIGEST}\n", alice=f"sha256:{_DIGEST}"))
    assert found.secrets.api_keys == (("alice", _DIGEST), ("bob", _DIGEST))
    assert found.warnings == ()


def test_key_set_is_that_of_the_secret() -> None:
    text = '{"keys": [{"kty": "RSA"}]}'
    secrets = resolve(_JWT, jwks=encode(jwks_json=text)).secrets
    assert (secrets.jwks, secrets.problems) == ((("local", text),), ())


@pytest.mark.parametrize(
    ("spec", "found", "problem"),
    [
        (_KEYS, {"keys": "does not exist"}, "auth.apiKeys.secret: Secret 'keys' does not exist"),
        (_KEYS, {"keys": {}}, "auth.apiKeys.secret: Secret 'keys' has no valid key"),
        (
            _JWT,
            {"jwks": {}},
            "auth.jwt[local].jwksSecret: Secret 'jwks' has no text under 'jwks.json'",
        ),
        (
            _JWT,
            {"jwks": encode(jwks_json='{"keys": []}')},
            "auth.jwt[local].jwksSecret: Secret 'jwks' has a JSON web key set without keys",
        ),
        (
            _TLS,
            {
                "tls": encode(tls_crt=_PAIR.cert_pem, tls_key=_OTHER.key_pem),
                "ca": encode(ca_crt=_CA.cert_pem),
            },
            "gateway.tls.secret: Secret 'tls' has a tls.key of another certificate",
        ),
        (
            _TLS,
            {
                "tls": encode(tls_crt=_PAIR.cert_pem, tls_key=_PAIR.key_pem),
                "ca": "does not exist",
            },
            "gateway.tls.clientCaSecret: Secret 'ca' does not exist",
        ),
    ],
)
def test_missing_or_invalid_secret_is_a_problem(
    spec: InferenceServiceSpec, found: dict[str, Mapping[str, str] | str], problem: str
) -> None:
    secrets = resolve(spec, **found).secrets
    assert secrets.problems == (problem,)
    assert secrets.tls is None, "Envoy rejects a part of it"


def test_text_that_is_no_certificate_is_a_problem_without_the_text() -> None:
    found = resolve(
        _TLS, tls=encode(tls_crt="text", tls_key="sesame"), ca=encode(ca_crt=_CA.cert_pem)
    )
    (problem,) = found.secrets.problems
    assert problem.startswith("gateway.tls.secret: Secret 'tls' has no valid certificate and key")
    assert "sesame" not in repr(found.secrets)
