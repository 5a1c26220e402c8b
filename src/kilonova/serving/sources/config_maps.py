"""What the ConfigMap of a service says. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from kilonova.api.json import JsonObject
from kilonova.api.serving import InferenceService, names
from kilonova.serving.sources.manifests import check_spec
from kilonova.serving.supersonic import ValuesError, convert_values
from kilonova.yaml_files import describe_yaml_error

VALUES_KEY = "values.yaml"
SERVICE_KEY = "service.yaml"

LABEL_SELECTOR = f"{names.SERVICE_CONFIG}={names.NAMESPACED}"
CLUSTER_LABEL_SELECTOR = f"{names.SERVICE_CONFIG}={names.OF_CLUSTER}"

_CACHED = 64
"""A change of a status is an event of the ConfigMap: its content is read again, and is the same."""


@dataclass(frozen=True, slots=True)
class ServiceConfig:
    """The spec of a service, or why there is none."""

    spec: JsonObject | None = None
    labels: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def read_config_map(
    data: Mapping[str, str],
    name: str,
    namespace: str,
    prometheus: str = "",
    *,
    namespaced: bool = False,
) -> ServiceConfig:
    """The service of a ConfigMap, which has its name.

    In the namespaced mode no API server checks it, and servers are pods of Deployments.
    """
    given = [each for each in (VALUES_KEY, SERVICE_KEY) if each in data]
    if len(given) != 1:
        return ServiceConfig(problems=(f"data: write either {VALUES_KEY} or {SERVICE_KEY}",))
    return _read(given[0], data[given[0]], name, namespace, prometheus, namespaced)


@lru_cache(maxsize=_CACHED)
def _read(
    key: str, text: str, name: str, namespace: str, prometheus: str, namespaced: bool
) -> ServiceConfig:
    import yaml  # slow, and needed in this mode alone

    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        return ServiceConfig(problems=(f"{key} is not YAML: {describe_yaml_error(error)}",))
    if content is not None and not isinstance(content, dict):
        return ServiceConfig(problems=(f"{key}: write KEY: VALUE lines",))
    fields = cast(dict[str, Any], content or {})
    if key == VALUES_KEY:
        return _convert(fields, name, namespace, prometheus, namespaced)
    return _read_service(fields, name, namespaced)


def _convert(
    values: dict[str, Any], name: str, namespace: str, prometheus: str, namespaced: bool
) -> ServiceConfig:
    try:
        # The name of the ConfigMap is already that which `nameOverride` says.
        conversion = convert_values({**values, "nameOverride": ""}, name, namespace, prometheus)
    except ValuesError as error:
        return ServiceConfig(problems=error.problems)
    spec: JsonObject = conversion.service["spec"]
    if namespaced and (problems := check_spec(spec)):
        return ServiceConfig(problems=tuple(problems), warnings=conversion.warnings)
    return ServiceConfig(
        spec,
        tuple(conversion.service["metadata"]["labels"].items()),
        conversion.warnings,
    )


def _read_service(service: JsonObject, name: str, namespaced: bool) -> ServiceConfig:
    metadata, spec = service.get("metadata"), service.get("spec")
    if service.get("kind") != InferenceService.__name__:
        return ServiceConfig(problems=(f"{SERVICE_KEY}: kind: write {InferenceService.__name__}",))
    if not isinstance(metadata, dict) or cast(JsonObject, metadata).get("name") != name:
        problem = f"{SERVICE_KEY}: metadata.name: write {name}, as the ConfigMap is called"
        return ServiceConfig(problems=(problem,))
    if not isinstance(spec, dict):
        return ServiceConfig(problems=(f"{SERVICE_KEY}: spec: is missing: it is required",))
    problems = _check(cast(JsonObject, spec)) if namespaced else ()
    if problems:
        return ServiceConfig(problems=tuple(f"{SERVICE_KEY}: {each}" for each in problems))
    return ServiceConfig(cast(JsonObject, spec))


def _check(spec: JsonObject) -> list[str]:
    groups = spec.get("servers")
    found = cast("list[object]", groups) if isinstance(groups, list) else []
    if any(isinstance(each, dict) and "podCliqueSetTemplate" in each for each in found):
        return [
            "spec.servers[].podCliqueSetTemplate: servers of several pods need PodCliqueSets, and "
            "so the installation of Kilonova on the cluster: write template"
        ]
    return check_spec(spec)
