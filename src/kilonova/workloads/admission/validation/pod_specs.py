"""Fields of pod specs that the operator or the scheduler sets itself. Pure."""

from collections.abc import Iterator
from typing import Any, cast

from kilonova.api.grove import names
from kilonova.api.grove.podcliqueset import Template
from kilonova.api.json import JsonObject
from kilonova.kube.admission import FieldError
from kilonova.kube.admission.field_errors import (
    duplicate,
    forbidden,
    invalid_value,
    unsupported,
)
from kilonova.kube.admission.syntax import check_variable_name
from kilonova.workloads.admission.validation.structure import CLIQUES_PATH
from kilonova.workloads.builders.startup_order import list_dependencies

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_CONTAINER_FIELDS = ("initContainers", "containers")


def validate_pod_specs(template: Template, *, creating: bool) -> Iterator[FieldError]:
    """Errors of the pod specs of all cliques."""
    for index, clique in enumerate(template.cliques):
        path, pod_spec = f"{CLIQUES_PATH}[{index}].spec.podSpec", clique.spec.pod_spec
        policy = pod_spec.get("restartPolicy")
        if policy and policy not in _RESTART_POLICIES:
            yield unsupported(f"{path}.restartPolicy", policy, _RESTART_POLICIES)
        if creating:
            if pod_spec.get("topologySpreadConstraints"):
                rule = "must not be set: use topologyConstraint, which applies to the whole gang"
                yield forbidden(f"{path}.topologySpreadConstraints", rule)
            if pod_spec.get("nodeName"):
                rule = "must not be set: the scheduler selects nodes for the whole gang"
                yield forbidden(f"{path}.nodeName", rule)
        if list_dependencies(template, clique.name):
            yield from _validate_reserved_names(path, pod_spec)
        for kind in _CONTAINER_FIELDS:
            for position, container in enumerate(_list_objects(pod_spec, kind)):
                yield from _validate_environment(f"{path}.{kind}[{position}].env", container)


def _validate_reserved_names(path: str, pod_spec: JsonObject) -> Iterator[FieldError]:
    """Names of the container and volume that the operator adds for startup ordering."""
    reserved = dict.fromkeys(_CONTAINER_FIELDS, names.STARTUP_CONTAINER)
    for kind, name in {**reserved, "volumes": names.POD_INFO_VOLUME}.items():
        for position, each in enumerate(_list_objects(pod_spec, kind)):
            if each.get("name") == name:
                rule = (
                    "is reserved for the operator in cliques with startup dependencies: rename it"
                )
                yield invalid_value(f"{path}.{kind}[{position}].name", name, rule)


def _validate_environment(path: str, container: JsonObject) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, variable in enumerate(_list_objects(container, "env")):
        name = str(variable.get("name", ""))
        if problem := check_variable_name(name):
            yield invalid_value(f"{path}[{index}].name", name, problem)
        elif name in seen:
            yield duplicate(f"{path}[{index}].name", name)
        seen.add(name)


def _list_objects(obj: JsonObject, name: str) -> list[JsonObject]:
    listed: list[Any] = obj.get(name) or []
    return [cast(JsonObject, each) for each in listed if isinstance(each, dict)]
