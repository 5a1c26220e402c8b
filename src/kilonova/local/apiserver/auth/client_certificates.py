"""Users from client certificates: the common name is the user, organizations are the groups."""

from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any

from cryptography import x509
from cryptography.x509.oid import NameOID

from kilonova.local.apiserver.auth.user import CREDENTIAL_ID, User

PeerCertificate = bytes | Mapping[str, Any]
"""A verified peer certificate: as DER, or as `ssl.SSLObject.getpeercert()` describes it."""


def certificate_user(peer: PeerCertificate) -> User | None:
    """The user of a certificate; None if it has no name. TLS has verified its chain."""
    if isinstance(peer, bytes):
        return _parse_der(peer)
    parts: list[tuple[str, str]] = [part for names in peer.get("subject", ()) for part in names]
    names = [value for key, value in parts if key == "commonName"]
    groups = tuple(value for key, value in parts if key == "organizationName")
    return User(names[-1], groups=groups) if names and names[-1] else None


@lru_cache(maxsize=1024)
def _parse_der(der: bytes) -> User | None:
    subject = x509.load_der_x509_certificate(der).subject
    names = [str(part.value) for part in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    organizations = subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    if not names or not names[-1]:
        return None
    groups = tuple(str(part.value) for part in organizations)
    return User(names[-1], "", groups, {CREDENTIAL_ID: (f"X509SHA256={sha256(der).hexdigest()}",)})
