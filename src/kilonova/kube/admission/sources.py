"""Where a server's certificate comes from, and how it is renewed.

`GivenFiles` reads what somebody else keeps up to date. `FolderSource` and `SecretSource` have
an authority of their own; both it and the certificate are renewed when a fifth of their life
is left. A replaced authority stays in the bundle until it has expired, so that copies of the
server which still show a certificate of it are trusted. Copies that share a Secret agree on
what is in it: its writes are conditional.
"""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding

from kilonova.api.json import JsonObject
from kilonova.kube.certificates import Authority, KeyPair, needs_renewal
from kilonova.kube.client import Client
from kilonova.kube.errors import AlreadyExists, Conflict, NotFound
from kilonova.kube.logging import get_logger
from kilonova.kube.resource import plain

log = get_logger(__name__)

SECRETS = plain("", "v1", "secrets", "Secret", True)

_FILES = {
    "ca_pem": "ca.crt",
    "ca_key_pem": "ca.key",
    "cert_pem": "tls.crt",
    "key_pem": "tls.key",
}


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a server shows (`pair`), and what its clients must trust (`ca_pem`, a bundle)."""

    pair: KeyPair
    ca_pem: bytes


class CertificateSource(Protocol):
    """Gives the certificate to serve with now; asked again every minute or so."""

    async def current(self, now: datetime) -> Credentials: ...


@dataclass(frozen=True, slots=True)
class GivenFiles:
    """A certificate that others renew, such as a mounted Secret of cert-manager."""

    cert: Path
    key: Path
    ca: Path

    async def current(self, now: datetime) -> Credentials:
        return Credentials(KeyPair.read(self.cert, self.key), self.ca.read_bytes())


@dataclass(frozen=True, slots=True)
class Kept:
    """An authority and a certificate of it, as PEM. `ca_pem` has the current authority first."""

    ca_pem: bytes
    ca_key_pem: bytes
    cert_pem: bytes
    key_pem: bytes

    @property
    def credentials(self) -> Credentials:
        return Credentials(KeyPair(self.cert_pem, self.key_pem), self.ca_pem)


def renewed(kept: Kept | None, names: Sequence[str], now: datetime) -> Kept:
    """What to keep now: `kept` itself while nothing is due and it has these names.

    ValueError if what is kept are no certificates and keys.
    """
    if kept is None or needs_renewal(kept.ca_pem, now):
        authority = Authority.create(f"{names[0]} CA"[:64], now)
        bundle = authority.cert_pem + (_not_expired(kept.ca_pem, now) if kept else b"")
        return _issued(authority, bundle, names, now)
    authority = Authority.load(kept.ca_pem, kept.ca_key_pem)
    bundle = _not_expired(kept.ca_pem, now)
    if (
        needs_renewal(kept.cert_pem, now)
        or not set(names) <= _names_in(kept.cert_pem)
        or not _is_issued_by(kept.cert_pem, bundle)
    ):
        return _issued(authority, bundle, names, now)
    return kept if bundle == kept.ca_pem else replace(kept, ca_pem=bundle)


@dataclass(frozen=True, slots=True)
class FolderSource:
    """Keeps an authority and a certificate for `names` in a folder of this machine.

    The folder is the server's own: files that do not belong together, as a crash between two
    writes may leave them, are made anew.
    """

    folder: Path
    names: Sequence[str]

    async def current(self, now: datetime) -> Credentials:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = self._read()
        try:
            current = renewed(kept, self.names, now)
        except ValueError as error:
            log.warning("certificates made anew", folder=str(self.folder), error=str(error))
            current = renewed(None, self.names, now)
        if current is not kept:
            files = self._files()
            KeyPair(current.ca_pem, current.ca_key_pem).write(files["ca_pem"], files["ca_key_pem"])
            current.credentials.pair.write(files["cert_pem"], files["key_pem"])
        return current.credentials

    def _read(self) -> Kept | None:
        files = self._files()
        if not all(path.exists() for path in files.values()):
            return None
        return Kept(**{name: path.read_bytes() for name, path in files.items()})

    def _files(self) -> dict[str, Path]:
        return {name: self.folder / file for name, file in _FILES.items()}


@dataclass(frozen=True, slots=True)
class SecretSource:
    """Keeps an authority and a certificate for `names` in a Secret, shared by all copies."""

    client: Client
    name: str
    namespace: str
    names: Sequence[str]

    async def current(self, now: datetime) -> Credentials:
        while True:
            version, kept = await self._read()
            try:
                current = renewed(kept, self.names, now)
            except ValueError as error:
                where = f"Secret {self.namespace}/{self.name}"
                fix = "delete it to have new ones made"
                raise ValueError(
                    f"the certificates in {where} are unusable: {error}; {fix}"
                ) from error
            if current is kept:
                return current.credentials
            try:
                await self._write(version, current)
                return current.credentials
            except (Conflict, AlreadyExists):
                # Another copy was faster: take what it wrote.
                continue

    async def _read(self) -> tuple[str | None, Kept | None]:
        try:
            secret = await self.client.get(SECRETS, self.name, self.namespace)
        except NotFound:
            return None, None
        version: str = secret["metadata"]["resourceVersion"]
        data: JsonObject = secret.get("data") or {}
        if not all(data.get(file) for file in _FILES.values()):
            return version, None
        return version, Kept(**{key: base64.b64decode(data[f]) for key, f in _FILES.items()})

    async def _write(self, version: str | None, kept: Kept) -> None:
        data = {f: base64.b64encode(getattr(kept, key)).decode() for key, f in _FILES.items()}
        if version is None:
            body: JsonObject = {"metadata": {"name": self.name}, "data": data}
            body["type"] = "kubernetes.io/tls"
            await self.client.create(SECRETS, body, self.namespace)
        else:
            patch: JsonObject = {"metadata": {"resourceVersion": version}, "data": data}
            await self.client.patch(SECRETS, self.name, patch, self.namespace)


def service_names(service: str, namespace: str) -> list[str]:
    """The names under which the API server calls a Service."""
    return [f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.cluster.local", service]


def expiry(cert_pem: bytes) -> datetime:
    """The end of a certificate."""
    return x509.load_pem_x509_certificate(cert_pem).not_valid_after_utc


def utc_now() -> datetime:
    return datetime.now(UTC)


Clock = Callable[[], datetime]


def _issued(authority: Authority, bundle: bytes, names: Sequence[str], now: datetime) -> Kept:
    pair = authority.issue_server(names, now)
    return Kept(bundle, authority.pair.key_pem, pair.cert_pem, pair.key_pem)


def _not_expired(bundle: bytes, now: datetime) -> bytes:
    certificates = x509.load_pem_x509_certificates(bundle)
    return b"".join(
        certificate.public_bytes(Encoding.PEM)
        for certificate in certificates
        if certificate.not_valid_after_utc > now
    )


def _is_issued_by(cert_pem: bytes, bundle: bytes) -> bool:
    certificate = x509.load_pem_x509_certificate(cert_pem)
    for authority in x509.load_pem_x509_certificates(bundle):
        try:
            certificate.verify_directly_issued_by(authority)
        except (ValueError, InvalidSignature):
            continue
        return True
    return False


def _names_in(cert_pem: bytes) -> set[str]:
    certificate = x509.load_pem_x509_certificate(cert_pem)
    extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return {str(name.value) for name in extension.value}
