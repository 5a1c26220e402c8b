"""From a kubeconfig's context, or from inside a pod, to a client."""

from __future__ import annotations

import base64
import binascii
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kilonova.api.json import JsonObject
from kilonova.kube.client import Client
from kilonova.kube.credentials import (
    Credential,
    Credentials,
    FetchedCredentials,
    FixedCredentials,
    TokenFile,
    basic,
    bearer,
)
from kilonova.kube.endpoint import Endpoint, Trust
from kilonova.kube.errors import ConfigError
from kilonova.kube.execplugin import API_VERSIONS, ExecPlugin
from kilonova.kube.kubeconfig import (
    ClusterEntry,
    Entry,
    ExecEntry,
    Kubeconfig,
    UserEntry,
    kubeconfig_files,
    read_kubeconfig,
)

_IN_CLUSTER = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Access:
    """A server, who to be there, and the namespace meant when none is named."""

    endpoint: Endpoint
    credentials: Credentials
    namespace: str = "default"


def connect(
    kubeconfig: str | Path | None = None,
    context: str | None = None,
    *,
    field_manager: str = "kilonova",
) -> Client:
    """A client for a context of a kubeconfig; without one, for the cluster we run in.

    Nothing is sent yet. `ConfigError` says what is wrong with the configuration.
    """
    # Costs a third of a second to import, which those who never leave the process save.
    from kilonova.kube.http import HttpTransport

    access = find_access(kubeconfig, context)
    return Client(HttpTransport(access.endpoint, access.credentials), field_manager=field_manager)


def find_access(
    kubeconfig: str | Path | None = None,
    context: str | None = None,
    *,
    environment: Mapping[str, str] = os.environ,
    in_cluster: Path = _IN_CLUSTER,
) -> Access:
    """How to reach the cluster that is meant.

    The file named, else those of KUBECONFIG or of the home folder, else the service account
    of the pod we are in.
    """
    if kubeconfig is not None:
        file = Path(kubeconfig).expanduser()
        if not file.exists():
            raise ConfigError(str(file), "there is no such file", "check the path")
        return access_of_context(read_kubeconfig([file]), context)
    files = kubeconfig_files(environment)
    if any(file.exists() for file in files):
        return access_of_context(read_kubeconfig(files), context)
    if environment.get("KUBERNETES_SERVICE_HOST"):
        return access_in_cluster(environment, in_cluster)
    raise ConfigError(
        ", ".join(map(str, files)),
        "there is no kubeconfig, and this is no pod",
        "name a kubeconfig, set KUBECONFIG, or start a cluster with `kilonova up`",
    )


def access_in_cluster(
    environment: Mapping[str, str] = os.environ, folder: Path = _IN_CLUSTER
) -> Access:
    """The service account of the pod we run in; its token is re-read as it is renewed."""
    host = environment["KUBERNETES_SERVICE_HOST"]
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    try:
        trust = Trust((folder / "ca.crt").read_bytes())
        namespace = (folder / "namespace").read_text().strip()
    except OSError as error:
        raise ConfigError(
            str(error.filename),
            f"cannot be read: {error.strerror}",
            "mount the pod's service account (automountServiceAccountToken)",
        ) from error
    return Access(Endpoint(server, trust), TokenFile(folder / "token"), namespace or "default")


def access_of_context(config: Kubeconfig, context: str | None = None) -> Access:
    """How to reach the cluster of a context (the current one), and as whom."""
    files = ", ".join(map(str, config.files))
    name = context or config.current_context
    if not name:
        raise ConfigError(f"{files}: current-context", "is not set", _choice(config.contexts))
    chosen = config.contexts.get(name)
    if chosen is None:
        raise ConfigError(files, f"there is no context {name!r}", _choice(config.contexts))
    cluster = config.clusters.get(chosen.value.cluster)
    if cluster is None:
        problem = f"there is no cluster {chosen.value.cluster!r}"
        raise chosen.error("cluster", problem, _choice(config.clusters))
    endpoint = _endpoint(cluster)
    credentials: Credentials = FixedCredentials()
    if chosen.value.user:
        user = config.users.get(chosen.value.user)
        if user is None:
            problem = f"there is no user {chosen.value.user!r}"
            raise chosen.error("user", problem, _choice(config.users))
        credentials = _credentials(user, cluster, endpoint.trust)
        endpoint = _impersonating(endpoint, user.value)
    return Access(endpoint, credentials, chosen.value.namespace or "default")


def _choice(named: Mapping[str, Any]) -> str:
    return f"choose one of: {', '.join(sorted(named))}" if named else "define one"


def _endpoint(cluster: Entry[ClusterEntry]) -> Endpoint:
    value = cluster.value
    server = urlsplit(value.server)
    if server.scheme not in ("http", "https") or not server.hostname:
        fix = "it must be like https://host:6443"
        raise cluster.error("server", f"{value.server!r} is not the URL of a server", fix)
    if value.proxy_url and urlsplit(value.proxy_url).scheme not in ("http", "https"):
        problem = f"{value.proxy_url!r} is not an http or https proxy"
        raise cluster.error("proxy-url", problem, "use an HTTP proxy")
    authority = _content(
        cluster,
        "certificate-authority",
        value.certificate_authority,
        value.certificate_authority_data,
    )
    if authority and value.insecure_skip_tls_verify:
        problem = "a CA is named as well, and there is no use for it"
        raise cluster.error("insecure-skip-tls-verify", problem, "keep one of the two")
    trust = Trust(authority, value.insecure_skip_tls_verify)
    try:
        trust.context()
    except (ssl.SSLError, UnicodeDecodeError) as error:
        fix = "it must be certificates in PEM"
        raise cluster.error("certificate-authority", "holds no certificate", fix) from error
    return Endpoint(value.server, trust, value.proxy_url, value.tls_server_name)


def _credentials(user: Entry[UserEntry], cluster: Entry[ClusterEntry], trust: Trust) -> Credentials:
    value = user.value
    if value.auth_provider is not None:
        problem = "auth providers were removed from Kubernetes"
        raise user.error("auth-provider", problem, "use an exec plug-in")
    certificate = _content(
        user, "client-certificate", value.client_certificate, value.client_certificate_data
    )
    key = _content(user, "client-key", value.client_key, value.client_key_data)
    if bool(certificate) != bool(key):
        missing = "client-key" if certificate else "client-certificate"
        raise user.error(missing, "is missing", "a client certificate needs its key")
    try:
        trust.context(certificate, key)
    except ssl.SSLError as error:
        problem = "the certificate or its key is no PEM, or they do not belong together"
        raise user.error("client-certificate", problem) from error
    if value.token_file:
        return TokenFile(user.resolve(value.token_file), certificate=certificate, key=key)
    if value.token:
        return FixedCredentials(bearer(value.token, certificate, key))
    if value.username:
        return FixedCredentials(basic(value.username, value.password))
    if value.exec is not None:
        return FetchedCredentials(_plugin(user, value.exec, cluster).fetch)
    return FixedCredentials(Credential("", certificate, key))


def _plugin(user: Entry[UserEntry], plugin: ExecEntry, cluster: Entry[ClusterEntry]) -> ExecPlugin:
    if plugin.api_version not in API_VERSIONS:
        problem = f"{plugin.api_version!r} is not known"
        raise user.error("exec.apiVersion", problem, f"use {API_VERSIONS[0]}")
    if not plugin.command:
        raise user.error("exec.command", "is missing", "name the program to run")
    if plugin.interactive_mode == "Always":
        problem = "the plug-in wants to ask a person, and there is none"
        raise user.error("exec.interactiveMode", problem, "use IfAvailable or Never")
    # A bare name is looked up in PATH; a path is relative to the kubeconfig.
    is_path = os.sep in plugin.command
    return ExecPlugin(
        where=f"{user.file}: {user.where}.exec",
        api_version=plugin.api_version,
        command=str(user.resolve(plugin.command)) if is_path else plugin.command,
        arguments=tuple(plugin.args or ()),
        environment=tuple((variable.name, variable.value) for variable in plugin.env or ()),
        install_hint=plugin.install_hint,
        cluster=_cluster_info(cluster) if plugin.provide_cluster_info else None,
    )


def _cluster_info(cluster: Entry[ClusterEntry]) -> JsonObject:
    value = cluster.value
    authority = _content(
        cluster,
        "certificate-authority",
        value.certificate_authority,
        value.certificate_authority_data,
    )
    info: JsonObject = {
        "server": value.server,
        "tls-server-name": value.tls_server_name,
        "insecure-skip-tls-verify": value.insecure_skip_tls_verify,
        "certificate-authority-data": base64.b64encode(authority).decode(),
        "proxy-url": value.proxy_url,
    }
    return {name: field for name, field in info.items() if field}


def _impersonating(endpoint: Endpoint, user: UserEntry) -> Endpoint:
    headers = [("impersonate-user", user.as_user)] if user.as_user else []
    if user.as_uid:
        headers.append(("impersonate-uid", user.as_uid))
    headers += [("impersonate-group", group) for group in user.as_groups or ()]
    for name, values in (user.as_user_extra or {}).items():
        headers += [(f"impersonate-extra-{name}", value) for value in values]
    return replace(endpoint, headers=tuple(headers))


def _content(entry: Entry[Any], key: str, file: str, data: str) -> bytes:
    """A field that is given in place (`…-data`, which counts first) or as a file."""
    if data:
        try:
            return base64.b64decode("".join(data.split()), validate=True)
        except binascii.Error as error:
            raise entry.error(f"{key}-data", f"is not base64: {error}") from error
    if file:
        path = entry.resolve(file)
        try:
            return path.read_bytes()
        except OSError as error:
            problem = f"{str(path)!r} cannot be read: {error.strerror}"
            raise entry.error(key, problem, "check the path") from error
    return b""
