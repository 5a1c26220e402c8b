"""Valid and invalid kubeconfigs, and the resulting server and credentials."""

import base64
import json
import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from kilonova.kube import ClientConfig, ConfigError, load_client_config, load_in_cluster_config
from kilonova.kube.client.config.credentials import (
    Credential,
    FetchedCredentials,
    TokenFileCredentials,
)
from kilonova.kube.client.config.exec_plugin import ExecPlugin
from kilonova.kube.serving.certificates import CertificateAuthority

NOW = datetime.now(UTC)
AUTHORITY = CertificateAuthority.create("test", NOW)
PAIR = AUTHORITY.issue_client("alice", ["admins"], NOW)
V1 = "client.authentication.k8s.io/v1"


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def config(
    cluster: dict[str, Any] | None = None,
    user: dict[str, Any] | None = None,
    current: str = "main",
    **more: Any,
) -> dict[str, Any]:
    """A kubeconfig with one context, `main`."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": current,
        "clusters": [{"name": "c", "cluster": {"server": "https://host:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}],
        **more,
    }


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write_file(content: Any, name: str = "config") -> Path:
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return path

    return write_file


async def current_credential(access: ClientConfig) -> Credential:
    return await access.credentials.current()


async def test_inline_token_and_ca(write: Callable[..., Path]) -> None:
    cluster = {
        "certificate-authority-data": encoded(AUTHORITY.cert_pem),
        "tls-server-name": "api",
        "proxy-url": "http://proxy:3128",
    }
    access = load_client_config(write(config(cluster, {"token": "secret"})))
    assert access.endpoint.server == "https://host:6443"
    assert access.endpoint.tls.ca_data == AUTHORITY.cert_pem
    assert (access.endpoint.tls_server_name, access.endpoint.proxy_url) == (
        "api",
        "http://proxy:3128",
    )
    assert access.namespace == "default"
    assert await current_credential(access) == Credential("Bearer secret")


async def test_files_are_relative_to_the_kubeconfig(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    folder = tmp_path / "pki"
    folder.mkdir()
    (folder / "ca.crt").write_bytes(AUTHORITY.cert_pem)
    PAIR.write(folder / "tls.crt", folder / "tls.key")
    user = {"client-certificate": "pki/tls.crt", "client-key": "pki/tls.key"}
    access = load_client_config(write(config({"certificate-authority": "pki/ca.crt"}, user)))
    assert access.endpoint.tls.ca_data == AUTHORITY.cert_pem
    assert await current_credential(access) == Credential("", PAIR.cert_pem, PAIR.key_pem)


async def test_inline_data_takes_precedence_over_a_file(write: Callable[..., Path]) -> None:
    user = {
        "client-certificate": "absent",
        "client-certificate-data": encoded(PAIR.cert_pem),
        "client-key": "absent",
        "client-key-data": encoded(PAIR.key_pem),
    }
    access = load_client_config(write(config(user=user)))
    assert (await current_credential(access)).certificate == PAIR.cert_pem


async def test_basic_authentication(write: Callable[..., Path]) -> None:
    access = load_client_config(write(config(user={"username": "al", "password": "pw"})))
    assert await current_credential(access) == Credential("Basic " + encoded(b"al:pw"))


async def test_context_without_a_user_is_anonymous(write: Callable[..., Path]) -> None:
    context = {"cluster": "c", "namespace": "team"}
    access = load_client_config(write(config(contexts=[{"name": "main", "context": context}])))
    assert access.namespace == "team"
    assert await current_credential(access) == Credential()


def test_impersonation_headers_are_sent(write: Callable[..., Path]) -> None:
    user = {"as": "bob", "as-uid": "7", "as-groups": ["x", "y"], "as-user-extra": {"s": ["1"]}}
    assert load_client_config(write(config(user=user))).endpoint.headers == (
        ("impersonate-user", "bob"),
        ("impersonate-uid", "7"),
        ("impersonate-group", "x"),
        ("impersonate-group", "y"),
        ("impersonate-extra-s", "1"),
    )


def test_first_of_several_files_takes_precedence(write: Callable[..., Path]) -> None:
    first = write(config(current="", contexts=None), "first")
    second = write(config({"server": "https://other"}), "second")
    listed = os.pathsep.join([str(first), str(first.parent / "absent"), str(second)])
    access = load_client_config(environment={"KUBECONFIG": listed})
    assert access.endpoint.server == "https://host:6443"


def test_another_context_can_be_selected(write: Callable[..., Path]) -> None:
    file = write(
        config(contexts=[{"name": "else", "context": {"cluster": "c", "namespace": "there"}}])
    )
    assert load_client_config(file, "else").namespace == "there"


INVALID_KUBECONFIGS: list[tuple[str, Any, list[str]]] = [
    ("not yaml", "a: [1\nb: }", ["is not YAML", "line 2"]),
    ("not a mapping", "- 1", ["is not a kubeconfig", "Expected `object`"]),
    ("another kind", {"kind": "Pod"}, ["is a 'Pod', not a kubeconfig"]),
    ("a wrong type", config({"server": 7}), ["$.clusters[0].cluster.server", "Expected `str`"]),
    ("no server", config({"server": ""}), ["clusters[c].cluster.server", "https://host:6443"]),
    ("a bad server", config({"server": "host:6443"}), ["'host:6443' is not the URL"]),
    ("socks", config({"proxy-url": "socks5://h:1"}), ["proxy-url", "socks5://h:1"]),
    (
        "a ca that is not base64",
        config({"certificate-authority-data": "%%%"}),
        ["certificate-authority-data", "is not base64"],
    ),
    (
        "a ca that is not pem",
        config({"certificate-authority-data": encoded(b"hello")}),
        ["certificate-authority", "contains no certificate", "PEM"],
    ),
    (
        "a ca file that is absent",
        config({"certificate-authority": "nowhere.crt"}),
        ["certificate-authority", "nowhere.crt", "No such file"],
    ),
    (
        "a ca and no checks",
        config(
            {
                "certificate-authority-data": encoded(AUTHORITY.cert_pem),
                "insecure-skip-tls-verify": True,
            }
        ),
        ["insecure-skip-tls-verify", "remove one of the two"],
    ),
    (
        "a certificate without a key",
        config(user={"client-certificate-data": encoded(PAIR.cert_pem)}),
        ["users[u].user.client-key", "is missing"],
    ),
    (
        "a key of another certificate",
        config(
            user={
                "client-certificate-data": encoded(PAIR.cert_pem),
                "client-key-data": encoded(AUTHORITY.issue_client("x", [], NOW).key_pem),
            }
        ),
        ["users[u].user.client-certificate", "do not match"],
    ),
    ("no current context", config(current=""), ["current-context", "one of: main"]),
    (
        "an unknown context",
        config(current="x"),
        ["context 'x' does not exist", "one of: main"],
    ),
    (
        "an unknown cluster",
        config(clusters=[]),
        ["contexts[main].context.cluster", "cluster 'c' does not exist", "define one"],
    ),
    (
        "an unknown user",
        config(users=[]),
        ["contexts[main].context.user", "user 'u' does not exist"],
    ),
    (
        "a name twice",
        config(users=[{"name": "u"}, {"name": "u"}]),
        ["users[u]", "used twice"],
    ),
    (
        "an auth provider",
        config(user={"auth-provider": {"name": "gcp"}}),
        ["auth-provider", "use an exec plug-in"],
    ),
    (
        "an old plug-in",
        config(
            user={"exec": {"apiVersion": "client.authentication.k8s.io/v1alpha1", "command": "x"}}
        ),
        ["exec.apiVersion", "v1alpha1' is not supported", V1],
    ),
    (
        "a plug-in without a command",
        config(user={"exec": {"apiVersion": V1}}),
        ["exec.command", "is missing"],
    ),
    (
        "a plug-in that must ask",
        config(user={"exec": {"apiVersion": V1, "command": "x", "interactiveMode": "Always"}}),
        ["exec.interactiveMode"],
    ),
]


@pytest.mark.parametrize(
    ("content", "words"),
    [bad[1:] for bad in INVALID_KUBECONFIGS],
    ids=[b[0] for b in INVALID_KUBECONFIGS],
)
def test_invalid_kubeconfig_names_place_problem_and_fix(
    content: Any, words: list[str], write: Callable[..., Path]
) -> None:
    file = write(content)
    with pytest.raises(ConfigError) as caught:
        load_client_config(file)
    for word in [str(file), *words]:
        assert word in str(caught.value)


def test_missing_configuration_suggests_a_fix(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="set KUBECONFIG"):
        load_client_config(environment={"KUBECONFIG": str(tmp_path / "absent")})
    with pytest.raises(ConfigError, match="the file does not exist"):
        load_client_config(tmp_path / "absent")


@pytest.fixture
def service_account_folder(tmp_path: Path) -> Path:
    """A service account as the kubelet mounts it."""
    (tmp_path / "ca.crt").write_bytes(AUTHORITY.cert_pem)
    (tmp_path / "namespace").write_text("team")
    (tmp_path / "token").write_text("one\n")
    return tmp_path


@pytest.mark.parametrize(
    ("host", "server"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
async def test_service_account_is_used_in_a_pod(
    host: str, server: str, service_account_folder: Path
) -> None:
    environment = {
        "KUBERNETES_SERVICE_HOST": host,
        "KUBECONFIG": str(service_account_folder / "absent"),
    }
    access = load_client_config(
        environment=environment, service_account_folder=service_account_folder
    )
    assert (access.endpoint.server, access.namespace) == (server, "team")
    assert await current_credential(access) == Credential("Bearer one")


def test_pod_without_service_account_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="automountServiceAccountToken"):
        load_in_cluster_config({"KUBERNETES_SERVICE_HOST": "h"}, tmp_path)


async def test_token_file_is_reread_after_a_minute_or_a_401(service_account_folder: Path) -> None:
    time = 0.0
    tokens = TokenFileCredentials(service_account_folder / "token", now=lambda: time)
    first = await tokens.current()
    (service_account_folder / "token").write_text("two")
    assert await tokens.current() is first
    time = 61.0
    assert (await tokens.current()).authorization == "Bearer two"
    (service_account_folder / "token").write_text("three")
    assert tokens.invalidate(first)
    assert (await tokens.current()).authorization == "Bearer three"


@pytest.mark.parametrize("content", ["", None])
async def test_empty_token_file_is_an_error(content: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "token").write_text(content)
    with pytest.raises(ConfigError, match=r"the token (is empty|cannot be read)"):
        await TokenFileCredentials(tmp_path / "token").current()


@pytest.fixture
def plugin(tmp_path: Path) -> Callable[[str], Path]:
    """Writes an executable shell script."""

    def write_script(body: str) -> Path:
        path = tmp_path / "plugin"
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return write_script


def exec_credential(version: str = V1, **status: str) -> str:
    return json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})


@pytest.mark.parametrize("version", [V1, "client.authentication.k8s.io/v1beta1"])
async def test_plugin_receives_arguments_and_cluster_info(
    version: str, plugin: Callable[[str], Path], write: Callable[..., Path], tmp_path: Path
) -> None:
    plugin(
        f'echo "$KUBERNETES_EXEC_INFO" > {tmp_path}/info; echo \''
        + exec_credential(version, token="TOKEN").replace("TOKEN", "'$1-$SALT'")
        + "'"
    )
    entry = {
        "apiVersion": version,
        "command": "./plugin",
        "args": ["arg"],
        "env": [{"name": "SALT", "value": "salt"}],
        "provideClusterInfo": True,
    }
    cluster = {"certificate-authority-data": encoded(AUTHORITY.cert_pem)}
    access = load_client_config(write(config(cluster, {"exec": entry})))
    assert await current_credential(access) == Credential("Bearer arg-salt")
    info = json.loads((tmp_path / "info").read_text())
    assert (info["apiVersion"], info["kind"]) == (version, "ExecCredential")
    assert info["spec"]["interactive"] is False
    assert info["spec"]["cluster"] == {"server": "https://host:6443", **cluster}


async def test_plugin_may_return_a_client_certificate(plugin: Callable[[str], Path]) -> None:
    status = {
        "clientCertificateData": PAIR.cert_pem.decode(),
        "clientKeyData": PAIR.key_pem.decode(),
    }
    script = plugin(f"cat <<'END'\n{exec_credential(**status)}\nEND")
    fetched = await ExecPlugin("users[u]", V1, str(script)).fetch()
    assert fetched.credential == Credential("", PAIR.cert_pem, PAIR.key_pem)


async def test_plugin_credential_is_cached_until_expiry_or_401(
    plugin: Callable[[str], Path], tmp_path: Path
) -> None:
    reply = exec_credential(token="t", expirationTimestamp="2030-01-01T00:00:00Z")
    script = plugin(f"echo run >> {tmp_path}/runs; echo '{reply}'")
    expiry = datetime(2030, 1, 1, tzinfo=UTC).timestamp()
    time = expiry - 10
    credentials = FetchedCredentials(ExecPlugin("", V1, str(script)).fetch, now=lambda: time)

    def runs() -> int:
        return len((tmp_path / "runs").read_text().splitlines())

    first = await credentials.current()
    await credentials.current()
    assert runs() == 1
    assert credentials.invalidate(first)
    second = await credentials.current()
    assert runs() == 2
    credentials.invalidate(first)
    assert await credentials.current() is second
    time = expiry
    await credentials.current()
    assert runs() == 3


BROKEN_PLUGINS = [
    ("exit 3", "exited with 3"),
    ("echo sorry >&2; exit 1", "exited with 1: sorry; install it"),
    ("echo nonsense", "did not print an ExecCredential"),
    (f"echo '{exec_credential('client.authentication.k8s.io/v1beta1', token='x')}'", "instead of"),
    (f"echo '{exec_credential()}'", "neither a token nor a client certificate"),
    (f"echo '{exec_credential(clientCertificateData='x')}'", "without its key"),
    ("exec sleep 1000", "did not exit within 0.2 s"),
]


@pytest.mark.parametrize(("script", "message"), BROKEN_PLUGINS)
async def test_failing_plugin_is_reported(
    script: str, message: str, plugin: Callable[[str], Path]
) -> None:
    limit = 0.2 if "sleep" in script else 10.0
    broken = ExecPlugin(
        "users[u]", V1, str(plugin(script)), install_hint="install it", timeout=limit
    )
    with pytest.raises(ConfigError, match=message):
        await broken.fetch()


async def test_missing_plugin_shows_its_install_hint() -> None:
    absent = ExecPlugin("users[u]", V1, "no-such-plugin", install_hint="get it at x")
    with pytest.raises(ConfigError, match="cannot be run: No such file or directory; get it at x"):
        await absent.fetch()
