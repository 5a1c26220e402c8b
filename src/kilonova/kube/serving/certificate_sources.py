"""Sources of a serving certificate, and its renewal.

`FileSource` reads files that another process renews. `FolderSource` and `SecretSource` have a
certificate authority of their own; both the CA and the certificate are renewed when a fifth of
their lifetime is left. A replaced CA stays in the bundle until it has expired, so that replicas of
the server which still serve a certificate of it are trusted. Replicas that share a Secret agree on
its content: writes are conditional.
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
from kilonova.kube.client.client import Client
from kilonova.kube.client.errors import AlreadyExists, Conflict, NotFound
from kilonova.kube.client.resource import unstructured_resource
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.kube.serving.certificates import CertificateAuthority, KeyPair, needs_renewal

log = get_logger(__name__)

SECRETS = unstructured_resource("", "v1", "secrets", "Secret", True)

_FILE_NAMES = {
    "ca_pem": "ca.crt",
    "ca_key_pem": "ca.key",
    "cert_pem": "tls.crt",
    "key_pem": "tls.key",
}


@dataclass(frozen=True, slots=True)
class ServingCertificate:
    """What a server serves (`pair`), and the CA bundle that its clients must trust (`ca_pem`)."""

    pair: KeyPair
    ca_pem: bytes


class CertificateSource(Protocol):
    """Returns the certificate to serve with now; called about every minute."""

    async def current(self, now: datetime) -> ServingCertificate: ...


@dataclass(frozen=True, slots=True)
class FileSource:
    """A certificate that is renewed by others, such as a mounted Secret of cert-manager."""

    cert: Path
    key: Path
    ca: Path

    async def current(self, now: datetime) -> ServingCertificate:
        return ServingCertificate(KeyPair.read(self.cert, self.key), self.ca.read_bytes())


@dataclass(frozen=True, slots=True)
class StoredCertificates:
    """A CA and a certificate of it, as PEM. `ca_pem` has the current CA first."""

    ca_pem: bytes
    ca_key_pem: bytes
    cert_pem: bytes
    key_pem: bytes

    @property
    def serving_certificate(self) -> ServingCertificate:
        return ServingCertificate(KeyPair(self.cert_pem, self.key_pem), self.ca_pem)


def renew_if_due(
    stored: StoredCertificates | None, names: Sequence[str], now: datetime
) -> StoredCertificates:
    """The certificates to store now: `stored` itself while no renewal is due and it has these
    names.

    ValueError if `stored` does not contain valid certificates and keys.
    """
    if stored is None or needs_renewal(stored.ca_pem, now):
        authority = CertificateAuthority.create(f"{names[0]} CA"[:64], now)
        bundle = authority.cert_pem + (_drop_expired(stored.ca_pem, now) if stored else b"")
        return _issue_certificate(authority, bundle, names, now)
    authority = CertificateAuthority.load(stored.ca_pem, stored.ca_key_pem)
    bundle = _drop_expired(stored.ca_pem, now)
    if (
        needs_renewal(stored.cert_pem, now)
        or not set(names) <= _subject_names(stored.cert_pem)
        or not _is_issued_by(stored.cert_pem, bundle)
    ):
        return _issue_certificate(authority, bundle, names, now)
    return stored if bundle == stored.ca_pem else replace(stored, ca_pem=bundle)


@dataclass(frozen=True, slots=True)
class FolderSource:
    """Stores a CA and a certificate for `names` in a local folder.

    The folder belongs to the server: inconsistent files, as a crash between two writes may leave
    them, are created again.
    """

    folder: Path
    names: Sequence[str]

    async def current(self, now: datetime) -> ServingCertificate:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        stored = self._read()
        try:
            current = renew_if_due(stored, self.names, now)
        except ValueError as error:
            log.warning("certificates recreated", folder=str(self.folder), error=str(error))
            current = renew_if_due(None, self.names, now)
        if current is not stored:
            files = self._file_paths()
            KeyPair(current.ca_pem, current.ca_key_pem).write(files["ca_pem"], files["ca_key_pem"])
            current.serving_certificate.pair.write(files["cert_pem"], files["key_pem"])
        return current.serving_certificate

    def _read(self) -> StoredCertificates | None:
        files = self._file_paths()
        if not all(path.exists() for path in files.values()):
            return None
        return StoredCertificates(**{name: path.read_bytes() for name, path in files.items()})

    def _file_paths(self) -> dict[str, Path]:
        return {name: self.folder / file for name, file in _FILE_NAMES.items()}


@dataclass(frozen=True, slots=True)
class SecretSource:
    """Stores a CA and a certificate for `names` in a Secret, shared by all replicas."""

    client: Client
    name: str
    namespace: str
    names: Sequence[str]

    async def current(self, now: datetime) -> ServingCertificate:
        while True:
            version, stored = await self._read()
            try:
                current = renew_if_due(stored, self.names, now)
            except ValueError as error:
                where = f"Secret {self.namespace}/{self.name}"
                fix = "delete it to have new ones created"
                raise ValueError(
                    f"the certificates in {where} are invalid: {error}; {fix}"
                ) from error
            if current is stored:
                return current.serving_certificate
            try:
                await self._write(version, current)
                return current.serving_certificate
            except (Conflict, AlreadyExists):
                # Another replica was faster: use what it wrote.
                continue

    async def _read(self) -> tuple[str | None, StoredCertificates | None]:
        try:
            secret = await self.client.get(SECRETS, self.name, self.namespace)
        except NotFound:
            return None, None
        version: str = secret["metadata"]["resourceVersion"]
        data: JsonObject = secret.get("data") or {}
        if not all(data.get(file) for file in _FILE_NAMES.values()):
            return version, None
        return version, StoredCertificates(
            **{key: base64.b64decode(data[f]) for key, f in _FILE_NAMES.items()}
        )

    async def _write(self, version: str | None, stored: StoredCertificates) -> None:
        data = {
            f: base64.b64encode(getattr(stored, key)).decode() for key, f in _FILE_NAMES.items()
        }
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


def certificate_expiry(cert_pem: bytes) -> datetime:
    """The time at which a certificate expires."""
    return x509.load_pem_x509_certificate(cert_pem).not_valid_after_utc


def utc_now() -> datetime:
    return datetime.now(UTC)


WallClock = Callable[[], datetime]


def _issue_certificate(
    authority: CertificateAuthority, bundle: bytes, names: Sequence[str], now: datetime
) -> StoredCertificates:
    pair = authority.issue_server(names, now)
    return StoredCertificates(bundle, authority.pair.key_pem, pair.cert_pem, pair.key_pem)


def _drop_expired(bundle: bytes, now: datetime) -> bytes:
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


def _subject_names(cert_pem: bytes) -> set[str]:
    certificate = x509.load_pem_x509_certificate(cert_pem)
    extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return {str(name.value) for name in extension.value}
