"""The Secrets that a service refers to, and what its gateways get of them. Pure.

Whatever is missing or invalid is a problem, and closes the gateway: it must not be open because a
Secret is missing. A single API key that is invalid is only left out: its client cannot use it, and
all others are not to suffer.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from kilonova.api.serving import InferenceServiceSpec
from kilonova.serving.gateway.model import GatewaySecrets, TlsMaterial

_JWKS_KEY = "jwks.json"
_CA_KEY = "ca.crt"
_CERTIFICATE_KEY = "tls.crt"
_PRIVATE_KEY_KEY = "tls.key"
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")

SecretData = Mapping[str, str]
"""Values in base64, by key."""


class _KeySet(msgspec.Struct):
    keys: list[dict[str, object]]


@dataclass(frozen=True, slots=True)
class ResolvedSecrets:
    """What gateways get, and what was left out of it."""

    secrets: GatewaySecrets
    warnings: tuple[str, ...] = ()


def list_referenced_secrets(spec: InferenceServiceSpec) -> frozenset[str]:
    """The names of the Secrets that a service refers to."""
    found: set[str] = set()
    if spec.gateway.tls is not None:
        found.add(spec.gateway.tls.secret)
        found.add(spec.gateway.tls.client_ca_secret)
    if spec.auth is not None:
        found.update(each.jwks_secret.name for each in spec.auth.jwt if each.jwks_secret)
        if spec.auth.api_keys is not None:
            found.add(spec.auth.api_keys.secret)
    return frozenset(found - {""})


def resolve_secrets(
    spec: InferenceServiceSpec, found: Mapping[str, SecretData | str]
) -> ResolvedSecrets:
    """What the gateways of a service get of its Secrets. `found` has the data of each, or the
    reason why it could not be read."""
    resolver = _Resolver(found)
    tls = resolver.read_tls(spec)
    jwks = resolver.read_jwks(spec)
    api_keys = resolver.read_api_keys(spec)
    secrets = GatewaySecrets(tls, api_keys, jwks, tuple(resolver.problems))
    return ResolvedSecrets(secrets, tuple(resolver.warnings))


@dataclass(slots=True)
class _Resolver:
    found: Mapping[str, SecretData | str]
    problems: list[str] = field(default_factory=list[str])
    warnings: list[str] = field(default_factory=list[str])

    def read_tls(self, spec: InferenceServiceSpec) -> TlsMaterial | None:
        """The certificate; None while anything is wrong with it, as Envoy rejects a part of it."""
        tls = spec.gateway.tls
        if tls is None:
            return None
        known = len(self.problems)
        certificate = self._read("gateway.tls.secret", tls.secret, _CERTIFICATE_KEY)
        private_key = self._read("gateway.tls.secret", tls.secret, _PRIVATE_KEY_KEY)
        client_ca = ""
        if tls.client_ca_secret:
            field_name = "gateway.tls.clientCaSecret"
            client_ca = self._read(field_name, tls.client_ca_secret, _CA_KEY)
            if client_ca:
                self._check(field_name, tls.client_ca_secret, _find_ca_problem(client_ca))
        if certificate and private_key:
            problem = _find_pair_problem(certificate, private_key)
            self._check("gateway.tls.secret", tls.secret, problem)
        if len(self.problems) > known:
            return None
        return TlsMaterial(certificate, private_key, client_ca)

    def read_jwks(self, spec: InferenceServiceSpec) -> tuple[tuple[str, str], ...]:
        read: list[tuple[str, str]] = []
        for provider in spec.auth.jwt if spec.auth is not None else ():
            reference = provider.jwks_secret
            if reference is None:
                continue
            field_name = f"auth.jwt[{provider.name}].jwksSecret"
            text = self._read(field_name, reference.name, reference.key or _JWKS_KEY)
            if text:
                self._check(field_name, reference.name, _find_jwks_problem(text))
            read.append((provider.name, text))
        return tuple(read)

    def read_api_keys(self, spec: InferenceServiceSpec) -> tuple[tuple[str, str], ...]:
        if spec.auth is None or spec.auth.api_keys is None:
            return ()
        name = spec.auth.api_keys.secret
        data = self._find("auth.apiKeys.secret", name)
        keys: list[tuple[str, str]] = []
        for client in sorted(data or ()):
            match = _DIGEST.fullmatch(self._decode(data[client]).strip()) if data else None
            if match is None:
                self.warnings.append(
                    f"auth.apiKeys.secret: key {client!r} of Secret {name!r} is left out: it must "
                    "be sha256: and 64 hexadecimal digits; `kilonova serve key` makes one"
                )
            else:
                keys.append((client, match[1]))
        if data is not None and not keys:
            self._check("auth.apiKeys.secret", name, "has no valid key")
        return tuple(keys)

    def _read(self, field_name: str, name: str, key: str) -> str:
        data = self._find(field_name, name)
        if data is None:
            return ""
        text = self._decode(data.get(key, ""))
        if not text:
            self._check(field_name, name, f"has no text under {key!r}")
        return text

    def _find(self, field_name: str, name: str) -> SecretData | None:
        data = self.found.get(name, "was not read yet")
        if isinstance(data, str):
            self._check(field_name, name, data)
            return None
        return data

    def _decode(self, value: str) -> str:
        try:
            return base64.b64decode(value, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return ""

    def _check(self, field_name: str, name: str, problem: str) -> None:
        text = f"{field_name}: Secret {name!r} {problem}"
        if problem and text not in self.problems:
            self.problems.append(text)


def _find_pair_problem(certificate: str, private_key: str) -> str:
    """What is wrong with a certificate and its key; empty if nothing is."""
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        PublicFormat,
        load_pem_private_key,
    )
    from cryptography.x509 import load_pem_x509_certificates

    form = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    try:
        served = load_pem_x509_certificates(certificate.encode())[0].public_key()
        own = load_pem_private_key(private_key.encode(), None).public_key()
        is_pair = served.public_bytes(*form) == own.public_bytes(*form)
    except (ValueError, TypeError) as error:
        return f"has no valid certificate and key: {error}"
    return "" if is_pair else f"has a {_PRIVATE_KEY_KEY} of another certificate"


def _find_ca_problem(text: str) -> str:
    from cryptography.x509 import load_pem_x509_certificates

    try:
        load_pem_x509_certificates(text.encode())
    except ValueError as error:
        return f"has no valid {_CA_KEY}: {error}"
    return ""


def _find_jwks_problem(text: str) -> str:
    try:
        has_keys = bool(msgspec.json.decode(text, type=_KeySet).keys)
    except msgspec.DecodeError as error:
        return f"has no JSON web key set: {error}"
    return "" if has_keys else "has a JSON web key set without keys"
