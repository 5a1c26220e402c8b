"""Certificates, verified by OpenSSL's handshake and by a parser."""

import ssl
import stat
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from kilonova.kube.serving.certificates import CertificateAuthority, KeyPair, needs_renewal

NOW = datetime.now(UTC).replace(microsecond=0)


@pytest.fixture(scope="module")
def authority() -> CertificateAuthority:
    return CertificateAuthority.create("test-ca", NOW)


def handshake(
    folder: Path,
    authority: CertificateAuthority,
    server_pair: KeyPair,
    client_pair: KeyPair | None,
    hostname: str,
) -> Mapping[str, object]:
    """A TLS handshake in memory; returns the client's certificate as the server sees it."""
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for name, context, pair in (
        ("server", server_context, server_pair),
        ("client", client_context, client_pair),
    ):
        context.load_verify_locations(cadata=authority.cert_pem.decode())
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        if pair:
            pair.write(folder / f"{name}.crt", folder / f"{name}.key")
            context.load_cert_chain(folder / f"{name}.crt", folder / f"{name}.key")
    server_context.verify_mode = ssl.CERT_OPTIONAL
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    client = client_context.wrap_bio(to_client, to_server, server_hostname=hostname)
    waiting = [client, server]
    while waiting:
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                continue
    return server.getpeercert() or {}


@pytest.mark.parametrize("hostname", ["localhost", "api.test.svc", "127.0.0.1", "::1"])
def test_serving_certificate_is_trusted_for_its_names(
    tmp_path: Path, authority: CertificateAuthority, hostname: str
):
    server = authority.issue_server(["localhost", "api.test.svc", "127.0.0.1", "::1"], NOW)
    assert handshake(tmp_path, authority, server, None, hostname) == {}


def test_serving_certificate_is_not_trusted_for_other_names(
    tmp_path: Path, authority: CertificateAuthority
):
    server = authority.issue_server(["localhost"], NOW)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(tmp_path, authority, server, None, "elsewhere.test")


def test_client_certificate_carries_user_and_groups(
    tmp_path: Path, authority: CertificateAuthority
):
    server = authority.issue_server(["localhost"], NOW)
    client = authority.issue_client("alice", ["system:masters", "team"], NOW)
    observed = handshake(tmp_path, authority, server, client, "localhost")
    assert observed["subject"] == (
        (("organizationName", "system:masters"),),
        (("organizationName", "team"),),
        (("commonName", "alice"),),
    )


def test_certificate_of_another_ca_is_rejected(tmp_path: Path, authority: CertificateAuthority):
    stranger = CertificateAuthority.create("test-ca", NOW)
    server = stranger.issue_server(["localhost"], NOW)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tmp_path, authority, server, None, "localhost")


def test_long_common_name_is_truncated(tmp_path: Path, authority: CertificateAuthority):
    name = "a" * 60 + ".namespace.svc"
    server = authority.issue_server([name], NOW)
    assert handshake(tmp_path, authority, server, None, name) == {}


def test_loaded_authority_signs_for_the_same_clients(
    tmp_path: Path, authority: CertificateAuthority
):
    loaded = CertificateAuthority.load(authority.pair.cert_pem, authority.pair.key_pem)
    assert loaded.pair == authority.pair
    server = loaded.issue_server(["localhost"], NOW)
    assert handshake(tmp_path, authority, server, None, "localhost") == {}


def test_load_rejects_key_of_another_certificate(authority: CertificateAuthority):
    other = CertificateAuthority.create("other", NOW)
    with pytest.raises(ValueError, match="do not match"):
        CertificateAuthority.load(authority.pair.cert_pem, other.pair.key_pem)


def test_serving_certificate_needs_a_name(authority: CertificateAuthority):
    with pytest.raises(ValueError, match="at least one name"):
        authority.issue_server([], NOW)


def test_key_file_is_readable_by_owner_only(tmp_path: Path, authority: CertificateAuthority):
    pair = authority.issue_server(["localhost"], NOW)
    key_path = tmp_path / "tls.key"
    key_path.write_text("older, and readable by all")
    key_path.chmod(0o644)
    pair.write(tmp_path / "tls.crt", key_path)
    assert stat.S_IMODE(key_path.stat().st_mode) == 0o600
    assert KeyPair.read(tmp_path / "tls.crt", key_path) == pair
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tls.crt", "tls.key"]


@pytest.mark.parametrize(
    ("days", "due"), [(0, False), (79, False), (80, True), (101, True), (-1, True)]
)
def test_renewal_is_due_in_the_last_fifth(authority: CertificateAuthority, days: int, due: bool):
    pair = authority.issue_server(["localhost"], NOW, timedelta(days=100))
    assert needs_renewal(pair.cert_pem, NOW + timedelta(days=days)) is due


def test_serial_numbers_differ(authority: CertificateAuthority):
    pairs = [authority.issue_client("alice", [], NOW) for _ in range(3)]
    certificates = [x509.load_pem_x509_certificate(pair.cert_pem) for pair in pairs]
    assert len({certificate.serial_number for certificate in certificates}) == 3
    names = certificates[0].subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert [name.value for name in names] == ["alice"]
