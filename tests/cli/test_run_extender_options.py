"""What `kilonova run extender` takes, refuses, and tells kube-scheduler."""

from pathlib import Path

import pytest
import yaml

from kilonova.cli.extenderprocess import ExtenderOptions, Tls, written_configuration
from kilonova.kube.admission import FolderSource, GivenFiles

CERT, KEY, FOLDER, CA = Path("c"), Path("k"), Path("d"), Path("ca")


def test_certificates_are_given_or_made() -> None:
    given = Tls.chosen(CERT, KEY, None, (), CA, "127.0.0.1")
    assert given == Tls(GivenFiles(CERT, KEY, CERT), CA)
    made = Tls.chosen(None, None, FOLDER, ("x.example.com",), None, "0.0.0.0")
    assert made == Tls(FolderSource(FOLDER, ("x.example.com",)), None)
    assert Tls.chosen(None, None, None, (), None, "127.0.0.1") is None


@pytest.mark.parametrize(
    ("address", "names"),
    [
        ("10.0.0.5", ("10.0.0.5", "localhost")),
        ("0.0.0.0", ("localhost", "127.0.0.1")),
        ("", ("localhost", "127.0.0.1")),
        ("extender.example.com", ("extender.example.com", "localhost")),
    ],
)
def test_a_made_certificate_has_the_names_of_its_address(
    address: str, names: tuple[str, ...]
) -> None:
    made = Tls.chosen(None, None, FOLDER, (), None, address)
    assert made == Tls(FolderSource(FOLDER, names), None)


@pytest.mark.parametrize(
    ("cert", "key", "folder", "names", "ca", "problem"),
    [
        (CERT, None, None, (), None, "--tls-cert and --tls-key go together"),
        (None, KEY, None, (), None, "--tls-cert and --tls-key go together"),
        (CERT, KEY, FOLDER, (), None, "leave --tls-cert out"),
        (CERT, KEY, None, ("n",), None, "--tls-name is for certificates made in --tls-dir"),
        (None, None, None, (), CA, "--tls-client-ca needs TLS"),
    ],
)
def test_options_that_do_not_go_together_are_named(
    cert: Path | None,
    key: Path | None,
    folder: Path | None,
    names: tuple[str, ...],
    ca: Path | None,
    problem: str,
) -> None:
    with pytest.raises(ValueError, match=problem):
        Tls.chosen(cert, key, folder, names, ca, "127.0.0.1")


@pytest.mark.parametrize(
    ("address", "tls", "url", "trusted"),
    [
        ("127.0.0.1", None, "http://127.0.0.1:8888", None),
        ("0.0.0.0", None, "http://127.0.0.1:8888", None),
        ("::1", None, "http://[::1]:8888", None),
        (
            "10.0.0.5",
            Tls(FolderSource(Path("/certs"), ()), None),
            "https://10.0.0.5:8888",
            {"caFile": "/certs/ca.crt"},
        ),
    ],
)
def test_the_printed_configuration_leads_to_the_extender(
    address: str, tls: Tls | None, url: str, trusted: dict[str, str] | None
) -> None:
    options = ExtenderOptions(
        kubeconfig=Path("/etc/kube.conf"),
        context=None,
        namespace="kube-system",
        health_port=0,
        election=None,
        log_format=None,
        address=address,
        port=8888,
        tls=tls,
    )
    printed = yaml.safe_load(written_configuration(options))
    assert printed["clientConnection"] == {"kubeconfig": "/etc/kube.conf"}
    (entry,) = printed["extenders"]
    assert (entry["urlPrefix"], entry["enableHTTPS"]) == (url, tls is not None)
    assert entry.get("tlsConfig") == trusted
    assert len(entry["managedResources"]) > 50
