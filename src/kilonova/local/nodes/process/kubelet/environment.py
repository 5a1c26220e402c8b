"""The environment of a container, from all its sources. Pure.

Later ones win: what this node gives every process, what Services there are, whole ConfigMaps and
Secrets, then variables one by one, each of which may refer to those before it.
"""

from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from kilonova.api.json import JsonObject
from kilonova.local.kinds.walk import part
from kilonova.local.nodes.process.kubelet.envfile import EnvFileError, value_in
from kilonova.local.nodes.process.kubelet.expansion import expand
from kilonova.local.nodes.process.kubelet.fields import (
    Surroundings,
    UnknownField,
    field_value,
    resource_value,
)
from kilonova.local.nodes.process.kubelet.pods import (
    Container,
    FileKeyRef,
    KeyRef,
    Pod,
    ValueFrom,
)


class ConfigError(Exception):
    """A container cannot be made as it is written: `CreateContainerConfigError`, until it can."""


class Sources(Protocol):
    """The ConfigMaps and Secrets of a pod's namespace, as they are now."""

    def config_map(self, name: str) -> JsonObject | None: ...

    def secret(self, name: str) -> JsonObject | None: ...


@dataclass(frozen=True, slots=True)
class Given:
    """What a container's environment is made from."""

    sources: Sources
    around: Surroundings
    services: Mapping[str, str]
    base: Mapping[str, str]
    """What every process of this node gets."""
    read_file: Callable[[str, str], str]
    """The text of a file in a volume: (volume, path)."""


def environment(pod: Pod, container: Container, given: Given) -> dict[str, str]:
    """All variables of a container; `ConfigError` in the kubelet's words."""
    reading = _Reading(pod, container, given)
    declared = reading.variables()
    return {**given.base, **given.services, **declared}


def command_line(container: Container, variables: Mapping[str, str]) -> tuple[str, ...]:
    """Command and arguments, with references to variables replaced."""
    return tuple(expand(word, variables) for word in (*container.command, *container.args))


class _Reading:
    def __init__(self, pod: Pod, container: Container, given: Given) -> None:
        self._pod = pod
        self._container = container
        self._given = given

    def variables(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for source in self._container.env_from:
            if source.config_map_ref is not None:
                ref = source.config_map_ref
                texts = self._config_map(ref.name, ref.optional)
            elif source.secret_ref is not None:
                ref = source.secret_ref
                texts = self._secret(ref.name, ref.optional)
            else:
                continue
            for key, value in (texts or {}).items():
                found[source.prefix + key] = value
        for variable in self._container.env:
            value: str | None = variable.value
            if value:
                value = expand(value, found, self._given.services)
            elif variable.value_from is not None:
                value = self._value_from(variable.value_from)
            if value is not None:
                found[variable.name] = value
        return found

    def _value_from(self, source: ValueFrom) -> str | None:
        """The value; None where an optional one is missing."""
        around = self._given.around
        try:
            if source.field_ref is not None:
                return field_value(self._pod, source.field_ref, around)
            if source.resource_field_ref is not None:
                return resource_value(self._pod, self._container, source.resource_field_ref, around)
        except UnknownField as error:
            raise ConfigError(str(error)) from error
        if source.config_map_key_ref is not None:
            ref = source.config_map_key_ref
            return self._key(self._config_map(ref.name, ref.optional), ref, "ConfigMap")
        if source.secret_key_ref is not None:
            ref = source.secret_key_ref
            return self._key(self._secret(ref.name, ref.optional), ref, "Secret")
        if source.file_key_ref is not None:
            return self._file_key(source.file_key_ref)
        return ""

    def _key(self, texts: Mapping[str, str] | None, ref: KeyRef, kind: str) -> str | None:
        if texts is not None and ref.key in texts:
            return texts[ref.key]
        if ref.optional:
            return None
        where = f"{self._pod.metadata.namespace}/{ref.name}"
        raise ConfigError(f"couldn't find key {ref.key} in {kind} {where}")

    def _file_key(self, ref: FileKeyRef) -> str | None:
        try:
            value = value_in(self._given.read_file(ref.volume_name, ref.path), ref.key)
        except (EnvFileError, OSError, UnicodeDecodeError):
            raise ConfigError("couldn't parse env file") from None
        if value:
            return value
        if ref.optional:
            return None
        raise ConfigError(
            f'environment variable key "{ref.key}" not found in file "{ref.path}" of volume '
            f'"{ref.volume_name}"'
        )

    def _config_map(self, name: str, optional: bool) -> Mapping[str, str] | None:
        found = self._given.sources.config_map(name)
        if found is None:
            return _absent("configmap", name, optional)
        texts: dict[str, str] = part(found, "data")
        return texts

    def _secret(self, name: str, optional: bool) -> Mapping[str, str] | None:
        found = self._given.sources.secret(name)
        if found is None:
            return _absent("secret", name, optional)
        data: dict[str, str] = part(found, "data")
        return {key: b64decode(value).decode(errors="replace") for key, value in data.items()}


def _absent(kind: str, name: str, optional: bool) -> None:
    if not optional:
        raise ConfigError(f'{kind} "{name}" not found')
