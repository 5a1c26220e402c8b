"""A certificate authority: for the embedded API server, and for admission servers.

Keys are ECDSA P-256. Everything here is a function of its arguments and of fresh random keys; the
time is passed in. Only `KeyPair.write` writes to disk.
"""

import contextlib
import ipaddress
import os
import ssl
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CA_LIFETIME = timedelta(days=3650)
CERTIFICATE_LIFETIME = timedelta(days=365)

# Certificates are valid from shortly before their creation, to allow for clock skew.
_CLOCK_SKEW = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both as PEM."""

    cert_pem: bytes
    key_pem: bytes

    def write(self, cert_path: Path, key_path: Path) -> None:
        """Write both files, the key readable by its owner only.

        Each file is replaced atomically, the key first, so that a process that reloads on a change
        of the certificate finds the matching key.
        """
        _replace_file(key_path, self.key_pem, 0o600)
        _replace_file(cert_path, self.cert_pem, 0o644)

    def load_into(self, context: ssl.SSLContext) -> None:
        """Let a TLS context serve the pair. The ssl module reads it from files only; these exist
        for the duration of the call."""
        with tempfile.TemporaryDirectory() as folder:
            cert, key = Path(folder, "tls.crt"), Path(folder, "tls.key")
            self.write(cert, key)
            context.load_cert_chain(cert, key)

    @classmethod
    def read(cls, cert_path: Path, key_path: Path) -> "KeyPair":
        """Read the pair written by `write`."""
        return cls(cert_path.read_bytes(), key_path.read_bytes())


class CertificateAuthority:
    """A CA that signs serving and client certificates."""

    def __init__(self, cert: x509.Certificate, key: CertificateIssuerPrivateKeyTypes) -> None:
        if cert.public_key() != key.public_key():
            raise ValueError("the CA certificate and its key do not match")
        self._cert = cert
        self._key = key

    @classmethod
    def create(
        cls, name: str, now: datetime, lifetime: timedelta = CA_LIFETIME
    ) -> "CertificateAuthority":
        """Create a CA with a new key; `name` is its common name."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _certificate_builder(subject, subject, key.public_key(), now, lifetime)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        builder = builder.add_extension(_key_usage(can_sign=True), True)
        return cls(builder.sign(key, hashes.SHA256()), key)

    @classmethod
    def load(cls, cert_pem: bytes, key_pem: bytes) -> "CertificateAuthority":
        """Load a CA from PEM. Raises ValueError unless they are a matching pair."""
        key = serialization.load_pem_private_key(key_pem, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("the CA key must be an elliptic curve key")
        return cls(x509.load_pem_x509_certificate(cert_pem), key)

    @property
    def pair(self) -> KeyPair:
        """The CA's own certificate and key."""
        return KeyPair(self.cert_pem, _encode_key(self._key))

    @property
    def cert_pem(self) -> bytes:
        """The certificate that clients trust: a `ca.crt`, a `caBundle`."""
        return self._cert.public_bytes(serialization.Encoding.PEM)

    def issue_server(
        self, names: Iterable[str], now: datetime, lifetime: timedelta = CERTIFICATE_LIFETIME
    ) -> KeyPair:
        """Issue a serving certificate for host names and IP addresses; the first is its common
        name."""
        subject_names = list(names)
        if not subject_names:
            raise ValueError("a serving certificate needs at least one name")
        # A common name has at most 64 characters; it is only informative, so a longer one is
        # truncated.
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject_names[0][:64])])
        alternatives = x509.SubjectAlternativeName([_general_name(name) for name in subject_names])
        return self._issue(subject, ExtendedKeyUsageOID.SERVER_AUTH, now, lifetime, alternatives)

    def issue_client(
        self,
        user: str,
        groups: Iterable[str],
        now: datetime,
        lifetime: timedelta = CERTIFICATE_LIFETIME,
    ) -> KeyPair:
        """Issue a client certificate as Kubernetes reads it: the common name is the user,
        organizations are the groups."""
        subject = x509.Name(
            [
                *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups),
                x509.NameAttribute(NameOID.COMMON_NAME, user),
            ]
        )
        return self._issue(subject, ExtendedKeyUsageOID.CLIENT_AUTH, now, lifetime, None)

    def _issue(
        self,
        subject: x509.Name,
        purpose: x509.ObjectIdentifier,
        now: datetime,
        lifetime: timedelta,
        alternatives: x509.SubjectAlternativeName | None,
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _certificate_builder(subject, self._cert.subject, key.public_key(), now, lifetime)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        builder = builder.add_extension(_key_usage(can_sign=False), True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), False)
        own_id = self._cert.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own_id), False
        )
        if alternatives is not None:
            builder = builder.add_extension(alternatives, False)
        cert = builder.sign(self._key, hashes.SHA256())
        return KeyPair(cert.public_bytes(serialization.Encoding.PEM), _encode_key(key))


def needs_renewal(cert_pem: bytes, now: datetime) -> bool:
    """Whether a fifth or less of the certificate's lifetime is left, or it is not yet valid."""
    cert = x509.load_pem_x509_certificate(cert_pem)
    not_before, not_after = cert.not_valid_before_utc, cert.not_valid_after_utc
    return now < not_before or not_after - now <= (not_after - not_before) / 5


def _certificate_builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    now: datetime,
    lifetime: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), False)
    )


def _key_usage(*, can_sign: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=can_sign,
        crl_sign=can_sign,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _encode_key(key: CertificateIssuerPrivateKeyTypes) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _replace_file(path: Path, content: bytes, mode: int) -> None:
    # mkstemp creates the file for its owner only, so the key is never readable by others.
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
