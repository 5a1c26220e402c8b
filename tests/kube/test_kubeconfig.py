"""From kubeconfigs, good and bad, to a server and an identity."""

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

from kilonova.kube import Access, ConfigError, access_in_cluster, find_access
from kilonova.kube.certificates import Authority
from kilonova.kube.credentials import Credential, FetchedCredentials, TokenFile
from kilonova.kube.execplugin import ExecPlugin

NOW = datetime.now(UTC)
AUTHORITY = Authority.create("test", NOW)
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


async def credential_of(access: Access) -> Credential:
    return await access.credentials.current()


async def test_a_token_and_a_ca_in_place(write: Callable[..., Path]) -> None:
    cluster = {
        "certificate-authority-data": encoded(AUTHORITY.cert_pem),
        "tls-server-name": "api",
        "proxy-url": "http://proxy:3128",
    }
    access = find_access(write(config(cluster, {"token": "secret"})))
    assert access.endpoint.server == "https://host:6443"
    assert access.endpoint.trust.authority == AUTHORITY.cert_pem
    assert (access.endpoint.tls_server_name, access.endpoint.proxy) == ("api", "http://proxy:3128")
    assert access.namespace == "default"
    assert await credential_of(access) == Credential("Bearer secret")


async def test_files_are_relative_to_the_kubeconfig(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    folder = tmp_path / "pki"
    folder.mkdir()
    (folder / "ca.crt").write_bytes(AUTHORITY.cert_pem)
    PAIR.write(folder / "tls.crt", folder / "tls.key")
    user = {"client-certificate": "pki/tls.crt", "client-key": "pki/tls.key"}
    access = find_access(write(config({"certificate-authority": "pki/ca.crt"}, user)))
    assert access.endpoint.trust.authority == AUTHORITY.cert_pem
    assert await credential_of(access) == Credential("", PAIR.cert_pem, PAIR.key_pem)


async def test_data_counts_before_a_file(write: Callable[..., Path]) -> None:
    user = {
        "client-certificate": "absent",
        "client-certificate-data": encoded(PAIR.cert_pem),
        "client-key": "absent",
        "client-key-data": encoded(PAIR.key_pem),
    }
    access = find_access(write(config(user=user)))
    assert (await credential_of(access)).certificate == PAIR.cert_pem


async def test_a_user_name_and_a_password(write: Callable[..., Path]) -> None:
    access = find_access(write(config(user={"username": "al", "password": "pw"})))
    assert await credential_of(access) == Credential("Basic " + encoded(b"al:pw"))


async def test_a_context_without_a_user_is_anonymous(write: Callable[..., Path]) -> None:
    context = {"cluster": "c", "namespace": "team"}
    access = find_access(write(config(contexts=[{"name": "main", "context": context}])))
    assert access.namespace == "team"
    assert await credential_of(access) == Credential()


def test_acting_as_another_user_is_not_ignored(write: Callable[..., Path]) -> None:
    user = {"as": "bob", "as-uid": "7", "as-groups": ["x", "y"], "as-user-extra": {"s": ["1"]}}
    assert find_access(write(config(user=user))).endpoint.headers == (
        ("impersonate-user", "bob"),
        ("impersonate-uid", "7"),
        ("impersonate-group", "x"),
        ("impersonate-group", "y"),
        ("impersonate-extra-s", "1"),
    )


def test_of_several_files_the_first_to_name_a_thing_counts(write: Callable[..., Path]) -> None:
    first = write(config(current="", contexts=None), "first")
    second = write(config({"server": "https://other"}), "second")
    listed = os.pathsep.join([str(first), str(first.parent / "absent"), str(second)])
    access = find_access(environment={"KUBECONFIG": listed})
    assert access.endpoint.server == "https://host:6443"


def test_another_context_can_be_chosen(write: Callable[..., Path]) -> None:
    file = write(
        config(contexts=[{"name": "else", "context": {"cluster": "c", "namespace": "there"}}])
    )
    assert find_access(file, "else").namespace == "there"


BAD: list[tuple[str, Any, list[str]]] = [
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
        ["certificate-authority", "holds no certificate", "PEM"],
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
        ["insecure-skip-tls-verify", "keep one of the two"],
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
        ["users[u].user.client-certificate", "do not belong together"],
    ),
    ("no current context", config(current=""), ["current-context", "one of: main"]),
    (
        "an unknown context",
        config(current="x"),
        ["there is no context 'x'", "one of: main"],
    ),
    (
        "an unknown cluster",
        config(clusters=[]),
        ["contexts[main].context.cluster", "there is no cluster 'c'", "define one"],
    ),
    ("an unknown user", config(users=[]), ["contexts[main].context.user", "no user 'u'"]),
    (
        "a name twice",
        config(users=[{"name": "u"}, {"name": "u"}]),
        ["users[u]", "taken twice"],
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
        ["exec.apiVersion", "v1alpha1' is not known", V1],
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


@pytest.mark.parametrize(("content", "words"), [bad[1:] for bad in BAD], ids=[b[0] for b in BAD])
def test_a_bad_kubeconfig_says_where_what_and_how_to_mend_it(
    content: Any, words: list[str], write: Callable[..., Path]
) -> None:
    file = write(content)
    with pytest.raises(ConfigError) as caught:
        find_access(file)
    for word in [str(file), *words]:
        assert word in str(caught.value)


def test_no_configuration_at_all_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="set KUBECONFIG"):
        find_access(environment={"KUBECONFIG": str(tmp_path / "absent")})
    with pytest.raises(ConfigError, match="there is no such file"):
        find_access(tmp_path / "absent")


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    """A service account as the kubelet mounts it."""
    (tmp_path / "ca.crt").write_bytes(AUTHORITY.cert_pem)
    (tmp_path / "namespace").write_text("team")
    (tmp_path / "token").write_text("one\n")
    return tmp_path


@pytest.mark.parametrize(
    ("host", "server"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
async def test_in_a_pod_the_service_account_is_used(host: str, server: str, mounted: Path) -> None:
    environment = {"KUBERNETES_SERVICE_HOST": host, "KUBECONFIG": str(mounted / "absent")}
    access = find_access(environment=environment, in_cluster=mounted)
    assert (access.endpoint.server, access.namespace) == (server, "team")
    assert await credential_of(access) == Credential("Bearer one")


def test_a_pod_without_its_service_account_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="automountServiceAccountToken"):
        access_in_cluster({"KUBERNETES_SERVICE_HOST": "h"}, tmp_path)


async def test_a_token_file_is_read_again_after_a_minute_or_a_refusal(mounted: Path) -> None:
    time = 0.0
    tokens = TokenFile(mounted / "token", now=lambda: time)
    first = await tokens.current()
    (mounted / "token").write_text("two")
    assert await tokens.current() is first
    time = 61.0
    assert (await tokens.current()).authorization == "Bearer two"
    (mounted / "token").write_text("three")
    assert tokens.refused(first)
    assert (await tokens.current()).authorization == "Bearer three"


@pytest.mark.parametrize("content", ["", None])
async def test_a_token_file_without_a_token_is_an_error(
    content: str | None, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "token").write_text(content)
    with pytest.raises(ConfigError, match=r"the token (is empty|cannot be read)"):
        await TokenFile(tmp_path / "token").current()


@pytest.fixture
def plugin(tmp_path: Path) -> Callable[[str], Path]:
    """Writes an executable shell script."""

    def write_script(body: str) -> Path:
        path = tmp_path / "plugin"
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return write_script


def answer(version: str = V1, **status: str) -> str:
    return json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status})


@pytest.mark.parametrize("version", [V1, "client.authentication.k8s.io/v1beta1"])
async def test_a_plugin_is_run_with_its_arguments_and_told_the_cluster(
    version: str, plugin: Callable[[str], Path], write: Callable[..., Path], tmp_path: Path
) -> None:
    plugin(
        f'echo "$KUBERNETES_EXEC_INFO" > {tmp_path}/info; echo \''
        + answer(version, token="TOKEN").replace("TOKEN", "'$1-$SALT'")
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
    access = find_access(write(config(cluster, {"exec": entry})))
    assert await credential_of(access) == Credential("Bearer arg-salt")
    info = json.loads((tmp_path / "info").read_text())
    assert (info["apiVersion"], info["kind"]) == (version, "ExecCredential")
    assert info["spec"]["interactive"] is False
    assert info["spec"]["cluster"] == {"server": "https://host:6443", **cluster}


async def test_a_plugin_may_give_a_client_certificate(plugin: Callable[[str], Path]) -> None:
    status = {
        "clientCertificateData": PAIR.cert_pem.decode(),
        "clientKeyData": PAIR.key_pem.decode(),
    }
    script = plugin(f"cat <<'END'\n{answer(**status)}\nEND")
    fetched = await ExecPlugin("users[u]", V1, str(script)).fetch()
    assert fetched.credential == Credential("", PAIR.cert_pem, PAIR.key_pem)


async def test_what_a_plugin_gives_is_kept_until_it_expires_or_is_refused(
    plugin: Callable[[str], Path], tmp_path: Path
) -> None:
    reply = answer(token="t", expirationTimestamp="2030-01-01T00:00:00Z")
    script = plugin(f"echo run >> {tmp_path}/runs; echo '{reply}'")
    expiry = datetime(2030, 1, 1, tzinfo=UTC).timestamp()
    time = expiry - 10
    credentials = FetchedCredentials(ExecPlugin("", V1, str(script)).fetch, now=lambda: time)

    def runs() -> int:
        return len((tmp_path / "runs").read_text().splitlines())

    first = await credentials.current()
    await credentials.current()
    assert runs() == 1
    assert credentials.refused(first)
    second = await credentials.current()
    assert runs() == 2
    credentials.refused(first)
    assert await credentials.current() is second
    time = expiry
    await credentials.current()
    assert runs() == 3


BROKEN_PLUGINS = [
    ("exit 3", "exited with 3"),
    ("echo sorry >&2; exit 1", "exited with 1: sorry; install it"),
    ("echo nonsense", "did not print an ExecCredential"),
    (f"echo '{answer('client.authentication.k8s.io/v1beta1', token='x')}'", "answered in"),
    (f"echo '{answer()}'", "neither a token nor a client certificate"),
    (f"echo '{answer(clientCertificateData='x')}'", "without its key"),
    ("exec sleep 1000", "did not end within 0.2 s"),
]


@pytest.mark.parametrize(("script", "message"), BROKEN_PLUGINS)
async def test_a_broken_plugin_says_what_is_wrong_with_it(
    script: str, message: str, plugin: Callable[[str], Path]
) -> None:
    limit = 0.2 if "sleep" in script else 10.0
    broken = ExecPlugin(
        "users[u]", V1, str(plugin(script)), install_hint="install it", timeout=limit
    )
    with pytest.raises(ConfigError, match=message):
        await broken.fetch()


async def test_a_plugin_that_is_not_installed_says_how_to_get_it() -> None:
    absent = ExecPlugin("users[u]", V1, "no-such-plugin", install_hint="get it at x")
    with pytest.raises(ConfigError, match="cannot be run: No such file or directory; get it at x"):
        await absent.fetch()
