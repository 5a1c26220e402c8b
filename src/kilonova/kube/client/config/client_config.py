"""Creates a client from a kubeconfig context, or from the service account of a pod."""

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
from kilonova.kube.client.client import Client
from kilonova.kube.client.config.credentials import (
    Credential,
    CredentialSource,
    FetchedCredentials,
    FixedCredentials,
    TokenFileCredentials,
    basic_credential,
    bearer_credential,
)
from kilonova.kube.client.config.endpoint import Endpoint, TlsClientConfig
from kilonova.kube.client.config.exec_plugin import API_VERSIONS, ExecPlugin
from kilonova.kube.client.config.kubeconfig import (
    ClusterEntry,
    ExecEntry,
    Kubeconfig,
    KubeconfigEntry,
    UserEntry,
    default_kubeconfig_files,
    read_kubeconfig,
)
from kilonova.kube.client.errors import ConfigError

_SERVICE_ACCOUNT_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """An API server, the credentials for it, and the default namespace."""

    endpoint: Endpoint
    credentials: CredentialSource
    namespace: str = "default"


def connect(
    kubeconfig: str | Path | None = None,
    context: str | None = None,
    *,
    field_manager: str = "kilonova",
) -> Client:
    """Create a client for a context of a kubeconfig; without one, for the cluster of this pod.

    Sends no request yet. Raises `ConfigError` if the configuration is invalid.
    """
    # Takes a third of a second to import, which in-process users do not need.
    from kilonova.kube.client.http_transport import HttpTransport

    access = load_client_config(kubeconfig, context)
    return Client(HttpTransport(access.endpoint, access.credentials), field_manager=field_manager)


def load_client_config(
    kubeconfig: str | Path | None = None,
    context: str | None = None,
    *,
    environment: Mapping[str, str] = os.environ,
    service_account_folder: Path = _SERVICE_ACCOUNT_FOLDER,
) -> ClientConfig:
    """Load the configuration of the selected cluster.

    From the named file, else from KUBECONFIG or the home folder, else from the service account of
    the pod.
    """
    if kubeconfig is not None:
        file = Path(kubeconfig).expanduser()
        if not file.exists():
            raise ConfigError(str(file), "the file does not exist", "check the path")
        return client_config_for_context(read_kubeconfig([file]), context)
    files = default_kubeconfig_files(environment)
    if any(file.exists() for file in files):
        return client_config_for_context(read_kubeconfig(files), context)
    if environment.get("KUBERNETES_SERVICE_HOST"):
        return load_in_cluster_config(environment, service_account_folder)
    raise ConfigError(
        ", ".join(map(str, files)),
        "no kubeconfig was found, and this process does not run in a pod",
        "pass a kubeconfig, set KUBECONFIG, or start a cluster with `kilonova up`",
    )


def load_in_cluster_config(
    environment: Mapping[str, str] = os.environ, folder: Path = _SERVICE_ACCOUNT_FOLDER
) -> ClientConfig:
    """Load the service account of this pod; its token is read again as it is rotated."""
    host = environment["KUBERNETES_SERVICE_HOST"]
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    try:
        tls_config = TlsClientConfig((folder / "ca.crt").read_bytes())
        namespace = (folder / "namespace").read_text().strip()
    except OSError as error:
        raise ConfigError(
            str(error.filename),
            f"cannot be read: {error.strerror}",
            "mount the pod's service account (automountServiceAccountToken)",
        ) from error
    return ClientConfig(
        Endpoint(server, tls_config), TokenFileCredentials(folder / "token"), namespace or "default"
    )


def client_config_for_context(config: Kubeconfig, context: str | None = None) -> ClientConfig:
    """The configuration of a context (by default the current one)."""
    files = ", ".join(map(str, config.files))
    name = context or config.current_context
    if not name:
        raise ConfigError(
            f"{files}: current-context", "is not set", _format_choices(config.contexts)
        )
    context_entry = config.contexts.get(name)
    if context_entry is None:
        raise ConfigError(
            files, f"context {name!r} does not exist", _format_choices(config.contexts)
        )
    cluster = config.clusters.get(context_entry.value.cluster)
    if cluster is None:
        problem = f"cluster {context_entry.value.cluster!r} does not exist"
        raise context_entry.config_error("cluster", problem, _format_choices(config.clusters))
    endpoint = _build_endpoint(cluster)
    credentials: CredentialSource = FixedCredentials()
    if context_entry.value.user:
        user = config.users.get(context_entry.value.user)
        if user is None:
            problem = f"user {context_entry.value.user!r} does not exist"
            raise context_entry.config_error("user", problem, _format_choices(config.users))
        credentials = _build_credentials(user, cluster, endpoint.tls)
        endpoint = _with_impersonation(endpoint, user.value)
    return ClientConfig(endpoint, credentials, context_entry.value.namespace or "default")


def _format_choices(named: Mapping[str, Any]) -> str:
    return f"choose one of: {', '.join(sorted(named))}" if named else "define one"


def _build_endpoint(cluster: KubeconfigEntry[ClusterEntry]) -> Endpoint:
    value = cluster.value
    server = urlsplit(value.server)
    if server.scheme not in ("http", "https") or not server.hostname:
        fix = "it must have the form https://host:6443"
        raise cluster.config_error("server", f"{value.server!r} is not the URL of a server", fix)
    if value.proxy_url and urlsplit(value.proxy_url).scheme not in ("http", "https"):
        problem = f"{value.proxy_url!r} is not an http or https proxy"
        raise cluster.config_error("proxy-url", problem, "use an HTTP proxy")
    authority = _read_data_or_file(
        cluster,
        "certificate-authority",
        value.certificate_authority,
        value.certificate_authority_data,
    )
    if authority and value.insecure_skip_tls_verify:
        problem = "cannot be combined with a certificate authority"
        raise cluster.config_error("insecure-skip-tls-verify", problem, "remove one of the two")
    tls_config = TlsClientConfig(authority, value.insecure_skip_tls_verify)
    try:
        tls_config.build_context()
    except (ssl.SSLError, UnicodeDecodeError) as error:
        fix = "it must contain PEM certificates"
        raise cluster.config_error(
            "certificate-authority", "contains no certificate", fix
        ) from error
    return Endpoint(value.server, tls_config, value.proxy_url, value.tls_server_name)


def _build_credentials(
    user: KubeconfigEntry[UserEntry],
    cluster: KubeconfigEntry[ClusterEntry],
    tls_config: TlsClientConfig,
) -> CredentialSource:
    value = user.value
    if value.auth_provider is not None:
        problem = "auth providers were removed from Kubernetes"
        raise user.config_error("auth-provider", problem, "use an exec plug-in")
    certificate = _read_data_or_file(
        user, "client-certificate", value.client_certificate, value.client_certificate_data
    )
    key = _read_data_or_file(user, "client-key", value.client_key, value.client_key_data)
    if bool(certificate) != bool(key):
        missing = "client-key" if certificate else "client-certificate"
        raise user.config_error(missing, "is missing", "a client certificate needs its key")
    try:
        tls_config.build_context(certificate, key)
    except ssl.SSLError as error:
        problem = "the certificate or its key is not PEM, or they do not match"
        raise user.config_error("client-certificate", problem) from error
    if value.token_file:
        return TokenFileCredentials(
            user.resolve_path(value.token_file), certificate=certificate, key=key
        )
    if value.token:
        return FixedCredentials(bearer_credential(value.token, certificate, key))
    if value.username:
        return FixedCredentials(basic_credential(value.username, value.password))
    if value.exec is not None:
        return FetchedCredentials(_build_exec_plugin(user, value.exec, cluster).fetch)
    return FixedCredentials(Credential("", certificate, key))


def _build_exec_plugin(
    user: KubeconfigEntry[UserEntry], plugin: ExecEntry, cluster: KubeconfigEntry[ClusterEntry]
) -> ExecPlugin:
    if plugin.api_version not in API_VERSIONS:
        problem = f"{plugin.api_version!r} is not supported"
        raise user.config_error("exec.apiVersion", problem, f"use {API_VERSIONS[0]}")
    if not plugin.command:
        raise user.config_error("exec.command", "is missing", "set the program to run")
    if plugin.interactive_mode == "Always":
        problem = "the plug-in requires user input, which is not available"
        raise user.config_error("exec.interactiveMode", problem, "use IfAvailable or Never")
    # A bare name is looked up in PATH; a path is relative to the kubeconfig.
    is_path = os.sep in plugin.command
    return ExecPlugin(
        where=f"{user.file}: {user.where}.exec",
        api_version=plugin.api_version,
        command=str(user.resolve_path(plugin.command)) if is_path else plugin.command,
        arguments=tuple(plugin.args or ()),
        environment=tuple((variable.name, variable.value) for variable in plugin.env or ()),
        install_hint=plugin.install_hint,
        cluster=_cluster_info(cluster) if plugin.provide_cluster_info else None,
    )


def _cluster_info(cluster: KubeconfigEntry[ClusterEntry]) -> JsonObject:
    value = cluster.value
    authority = _read_data_or_file(
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


def _with_impersonation(endpoint: Endpoint, user: UserEntry) -> Endpoint:
    headers = [("impersonate-user", user.as_user)] if user.as_user else []
    if user.as_uid:
        headers.append(("impersonate-uid", user.as_uid))
    headers += [("impersonate-group", group) for group in user.as_groups or ()]
    for name, values in (user.as_user_extra or {}).items():
        headers += [(f"impersonate-extra-{name}", value) for value in values]
    return replace(endpoint, headers=tuple(headers))


def _read_data_or_file(entry: KubeconfigEntry[Any], key: str, file: str, data: str) -> bytes:
    """The value of a field that is given inline (`…-data`, which has precedence) or as a file."""
    if data:
        try:
            return base64.b64decode("".join(data.split()), validate=True)
        except binascii.Error as error:
            raise entry.config_error(f"{key}-data", f"is not base64: {error}") from error
    if file:
        path = entry.resolve_path(file)
        try:
            return path.read_bytes()
        except OSError as error:
            problem = f"{str(path)!r} cannot be read: {error.strerror}"
            raise entry.config_error(key, problem, "check the path") from error
    return b""
