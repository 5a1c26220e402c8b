"""Kubeconfig files: read, validated and merged.

KUBECONFIG may list several files. Of entries with the same name, and of current-context, the first
has precedence; missing files are skipped. Each entry records its file: paths inside are relative to
it, and errors name it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar, cast

import msgspec
import yaml

from kilonova.kube.client.errors import ConfigError
from kilonova.yaml_files import describe_yaml_error

T = TypeVar("T")


class ClusterEntry(msgspec.Struct, rename="kebab"):
    """A server, and how it is verified."""

    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""


class ExecVariable(msgspec.Struct):
    """An environment variable of an exec plug-in."""

    name: str
    value: str = ""


class ExecEntry(msgspec.Struct, rename="camel"):
    """An exec plug-in."""

    api_version: str = ""
    command: str = ""
    args: list[str] | None = None
    env: list[ExecVariable] | None = None
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = "IfAvailable"


class UserEntry(msgspec.Struct, rename="kebab"):
    """The credentials of a user."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(name="tokenFile", default="")
    username: str = ""
    password: str = ""
    exec: ExecEntry | None = None
    auth_provider: dict[str, object] | None = None
    as_user: str = msgspec.field(name="as", default="")
    as_uid: str = ""
    as_groups: list[str] | None = None
    as_user_extra: dict[str, list[str]] | None = None


class ContextEntry(msgspec.Struct):
    """A cluster, a user, and the default namespace."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class KubeconfigEntry(Generic[T]):
    """A named entry, with its file and location."""

    value: T
    file: Path
    where: str

    def resolve_path(self, path: str) -> Path:
        """Resolve a path of this entry, which may be relative to its file."""
        return self.file.parent / path

    def config_error(self, key: str, problem: str, fix: str = "") -> ConfigError:
        """The error for a key of this entry."""
        return ConfigError(f"{self.file}: {self.where}.{key}", problem, fix)


@dataclass(slots=True)
class Kubeconfig:
    """All entries of the files, merged."""

    files: Sequence[Path]
    current_context: str = ""
    clusters: dict[str, KubeconfigEntry[ClusterEntry]] = field(
        default_factory=dict[str, KubeconfigEntry[ClusterEntry]]
    )
    users: dict[str, KubeconfigEntry[UserEntry]] = field(
        default_factory=dict[str, KubeconfigEntry[UserEntry]]
    )
    contexts: dict[str, KubeconfigEntry[ContextEntry]] = field(
        default_factory=dict[str, KubeconfigEntry[ContextEntry]]
    )


def default_kubeconfig_files(environment: Mapping[str, str] = os.environ) -> list[Path]:
    """The files used when none is given: those of KUBECONFIG, else the one in the home folder."""
    listed = environment.get("KUBECONFIG", "")
    if listed:
        return [Path(part).expanduser() for part in listed.split(os.pathsep) if part]
    return [Path("~/.kube/config").expanduser()]


def read_kubeconfig(files: Sequence[Path]) -> Kubeconfig:
    """Read and merge files, the first with precedence; missing files are skipped."""
    merged = Kubeconfig(files)
    for file in files:
        document = _read_document(file)
        if document is None:
            continue
        merged.current_context = merged.current_context or document.current_context
        _merge_entries(merged.clusters, file, "clusters", "cluster", document.clusters)
        _merge_entries(merged.users, file, "users", "user", document.users)
        _merge_entries(merged.contexts, file, "contexts", "context", document.contexts)
    return merged


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: ClusterEntry = msgspec.field(default_factory=ClusterEntry)


class _NamedUser(msgspec.Struct):
    name: str
    user: UserEntry = msgspec.field(default_factory=UserEntry)


class _NamedContext(msgspec.Struct):
    name: str
    context: ContextEntry = msgspec.field(default_factory=ContextEntry)


class _Document(msgspec.Struct, rename="kebab"):
    kind: str = "Config"
    current_context: str = ""
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None


def _read_document(file: Path) -> _Document | None:
    try:
        text = file.read_text()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(file), f"cannot be read: {error}") from error
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(str(file), f"is not YAML: {describe_yaml_error(error)}") from None
    if content is None:
        return None
    try:
        document = msgspec.convert(_drop_nulls(content), _Document)
    except msgspec.ValidationError as error:
        raise ConfigError(str(file), f"is not a kubeconfig: {error}") from error
    if document.kind != "Config":
        raise ConfigError(
            str(file), f"is a {document.kind!r}, not a kubeconfig", "its kind must be Config"
        )
    return document


def _drop_nulls(content: object) -> object:
    """Drop keys without a value, as Kubernetes does."""
    if isinstance(content, dict):
        items = cast("dict[object, object]", content)
        return {key: _drop_nulls(value) for key, value in items.items() if value is not None}
    if isinstance(content, list):
        values = cast("list[object]", content)
        return [_drop_nulls(value) for value in values]
    return content


def _merge_entries(
    merged: dict[str, KubeconfigEntry[T]],
    file: Path,
    section: str,
    key: str,
    named: Sequence[object] | None,
) -> None:
    seen: set[str] = set()
    for item in named or ():
        name: str = getattr(item, "name")  # noqa: B009 - one function for three types
        where = f"{section}[{name}]"
        if name in seen:
            raise ConfigError(
                f"{file}: {where}", "the name is used twice", "rename one of the entries"
            )
        seen.add(name)
        merged.setdefault(name, KubeconfigEntry(getattr(item, key), file, f"{where}.{key}"))
