"""Options of `kilonova run extender`, and the printed KubeSchedulerConfiguration."""

from pathlib import Path

import pytest
import yaml

from kilonova.kube.admission import FileSource, FolderSource
from kilonova.scheduler.extender.process import ExtenderOptions, TlsOptions, format_configuration

CERT, KEY, DIRECTORY, CA = Path("c"), Path("k"), Path("d"), Path("ca")


def test_certificates_are_read_or_generated() -> None:
    given = TlsOptions.from_flags(CERT, KEY, None, (), CA, "127.0.0.1")
    assert given == TlsOptions(FileSource(CERT, KEY, CERT), CA)
    made = TlsOptions.from_flags(None, None, DIRECTORY, ("x.example.com",), None, "0.0.0.0")
    assert made == TlsOptions(FolderSource(DIRECTORY, ("x.example.com",)), None)
    assert TlsOptions.from_flags(None, None, None, (), None, "127.0.0.1") is None


@pytest.mark.parametrize(
    ("address", "names"),
    [
        ("10.0.0.5", ("10.0.0.5", "localhost")),
        ("0.0.0.0", ("localhost", "127.0.0.1")),
        ("", ("localhost", "127.0.0.1")),
        ("extender.example.com", ("extender.example.com", "localhost")),
    ],
)
def test_generated_certificate_has_the_names_of_its_address(
    address: str, names: tuple[str, ...]
) -> None:
    made = TlsOptions.from_flags(None, None, DIRECTORY, (), None, address)
    assert made == TlsOptions(FolderSource(DIRECTORY, names), None)


@pytest.mark.parametrize(
    ("cert", "key", "directory", "names", "ca", "problem"),
    [
        (CERT, None, None, (), None, "--tls-cert and --tls-key require each other"),
        (None, KEY, None, (), None, "--tls-cert and --tls-key require each other"),
        (CERT, KEY, DIRECTORY, (), None, "--tls-dir and --tls-cert exclude each other"),
        (CERT, KEY, None, ("n",), None, "--tls-name requires --tls-dir"),
        (None, None, None, (), CA, "--tls-client-ca requires --tls-cert or --tls-dir"),
    ],
)
def test_conflicting_options_are_rejected(
    cert: Path | None,
    key: Path | None,
    directory: Path | None,
    names: tuple[str, ...],
    ca: Path | None,
    problem: str,
) -> None:
    with pytest.raises(ValueError, match=problem):
        TlsOptions.from_flags(cert, key, directory, names, ca, "127.0.0.1")


@pytest.mark.parametrize(
    ("address", "tls", "url", "tls_config"),
    [
        ("127.0.0.1", None, "http://127.0.0.1:8888", None),
        ("0.0.0.0", None, "http://127.0.0.1:8888", None),
        ("::1", None, "http://[::1]:8888", None),
        (
            "10.0.0.5",
            TlsOptions(FolderSource(Path("/certs"), ()), None),
            "https://10.0.0.5:8888",
            {"caFile": "/certs/ca.crt"},
        ),
    ],
)
def test_printed_configuration_uses_the_extender(
    address: str, tls: TlsOptions | None, url: str, tls_config: dict[str, str] | None
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
    printed = yaml.safe_load(format_configuration(options))
    assert printed["clientConnection"] == {"kubeconfig": "/etc/kube.conf"}
    (entry,) = printed["extenders"]
    assert (entry["urlPrefix"], entry["enableHTTPS"]) == (url, tls is not None)
    assert entry.get("tlsConfig") == tls_config
    assert len(entry["managedResources"]) > 50
