"""The environment of a container, from all its sources. Pure.

Later sources override earlier ones: variables of this node, Services, whole ConfigMaps and Secrets
(`envFrom`), then `env`, where each variable may refer to those before it.
"""

from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.unstructured import nested_object
from kilonova.local.processnode.kubelet.environment.downward_api import (
    FieldContext,
    UnsupportedField,
    resolve_field,
    resolve_resource,
)
from kilonova.local.processnode.kubelet.environment.env_file import EnvFileError, read_value
from kilonova.local.processnode.kubelet.environment.expansion import expand_references
from kilonova.local.processnode.kubelet.objects import (
    Container,
    EnvVarSource,
    FileKeySelector,
    KeySelector,
    Pod,
)


class ContainerConfigError(Exception):
    """The container's configuration cannot be resolved: `CreateContainerConfigError` until it
    can."""


class ObjectSources(Protocol):
    """The current ConfigMaps and Secrets of a pod's namespace."""

    def config_map(self, name: str) -> JsonObject | None: ...

    def secret(self, name: str) -> JsonObject | None: ...


@dataclass(frozen=True, slots=True)
class EnvironmentInputs:
    """The inputs of a container's environment."""

    sources: ObjectSources
    field_context: FieldContext
    services: Mapping[str, str]
    base: Mapping[str, str]
    """Variables of every process of this node."""
    read_file: Callable[[str, str], str]
    """Reads a file in a volume: (volume, path)."""


def build_environment(pod: Pod, container: Container, inputs: EnvironmentInputs) -> dict[str, str]:
    """All variables of a container; `ContainerConfigError` has the kubelet's message."""
    reading = _EnvironmentBuilder(pod, container, inputs)
    declared = reading.build()
    return {**inputs.base, **inputs.services, **declared}


def expand_command_line(words: Iterable[str], variables: Mapping[str, str]) -> tuple[str, ...]:
    """Command and arguments with references to variables replaced."""
    return tuple(expand_references(word, variables) for word in words)


class _EnvironmentBuilder:
    def __init__(self, pod: Pod, container: Container, inputs: EnvironmentInputs) -> None:
        self._pod = pod
        self._container = container
        self._inputs = inputs

    def build(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for source in self._container.env_from:
            if source.config_map_ref is not None:
                ref = source.config_map_ref
                texts = self._read_config_map(ref.name, ref.optional)
            elif source.secret_ref is not None:
                ref = source.secret_ref
                texts = self._read_secret(ref.name, ref.optional)
            else:
                continue
            for key, value in (texts or {}).items():
                found[source.prefix + key] = value
        for variable in self._container.env:
            value: str | None = variable.value
            if value:
                value = expand_references(value, found, self._inputs.services)
            elif variable.value_from is not None:
                value = self._resolve_value(variable.value_from)
            if value is not None:
                found[variable.name] = value
        return found

    def _resolve_value(self, source: EnvVarSource) -> str | None:
        """The value; None if it is optional and missing."""
        around = self._inputs.field_context
        try:
            if source.field_ref is not None:
                return resolve_field(self._pod, source.field_ref, around)
            if source.resource_field_ref is not None:
                return resolve_resource(
                    self._pod, self._container, source.resource_field_ref, around
                )
        except UnsupportedField as error:
            raise ContainerConfigError(str(error)) from error
        if source.config_map_key_ref is not None:
            ref = source.config_map_key_ref
            return self._resolve_key(
                self._read_config_map(ref.name, ref.optional), ref, "ConfigMap"
            )
        if source.secret_key_ref is not None:
            ref = source.secret_key_ref
            return self._resolve_key(self._read_secret(ref.name, ref.optional), ref, "Secret")
        if source.file_key_ref is not None:
            return self._resolve_file_key(source.file_key_ref)
        return ""

    def _resolve_key(
        self, texts: Mapping[str, str] | None, ref: KeySelector, kind: str
    ) -> str | None:
        if texts is not None and ref.key in texts:
            return texts[ref.key]
        if ref.optional:
            return None
        where = f"{self._pod.metadata.namespace}/{ref.name}"
        raise ContainerConfigError(f"couldn't find key {ref.key} in {kind} {where}")

    def _resolve_file_key(self, ref: FileKeySelector) -> str | None:
        try:
            value = read_value(self._inputs.read_file(ref.volume_name, ref.path), ref.key)
        except (EnvFileError, OSError, UnicodeDecodeError):
            raise ContainerConfigError("couldn't parse env file") from None
        if value:
            return value
        if ref.optional:
            return None
        raise ContainerConfigError(
            f'environment variable key "{ref.key}" not found in file "{ref.path}" of volume '
            f'"{ref.volume_name}"'
        )

    def _read_config_map(self, name: str, optional: bool) -> Mapping[str, str] | None:
        found = self._inputs.sources.config_map(name)
        if found is None:
            return _check_optional("configmap", name, optional)
        texts: dict[str, str] = nested_object(found, "data")
        return texts

    def _read_secret(self, name: str, optional: bool) -> Mapping[str, str] | None:
        found = self._inputs.sources.secret(name)
        if found is None:
            return _check_optional("secret", name, optional)
        data: dict[str, str] = nested_object(found, "data")
        return {key: b64decode(value).decode(errors="replace") for key, value in data.items()}


def _check_optional(kind: str, name: str, optional: bool) -> None:
    if not optional:
        raise ContainerConfigError(f'{kind} "{name}" not found')
