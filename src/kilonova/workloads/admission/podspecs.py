"""What the pods of a clique may not say, as the operator or the scheduler says it. Pure."""

from collections.abc import Iterator
from typing import Any, cast

from kilonova.api.grove import names
from kilonova.api.grove.podcliqueset import Template
from kilonova.api.json import JsonObject
from kilonova.kube.admission import Problem
from kilonova.workloads.admission.composition import CLIQUES
from kilonova.workloads.admission.findings import duplicate, forbidden, invalid_value, unsupported
from kilonova.workloads.admission.syntax import variable_name
from kilonova.workloads.templates.startup import dependencies

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_CONTAINERS = ("initContainers", "containers")


def pod_problems(template: Template, *, creating: bool) -> Iterator[Problem]:
    """What is wrong with the pods of all cliques."""
    for index, clique in enumerate(template.cliques):
        path, pods = f"{CLIQUES}[{index}].spec.podSpec", clique.spec.pod_spec
        policy = pods.get("restartPolicy")
        if policy and policy not in _RESTART_POLICIES:
            yield unsupported(f"{path}.restartPolicy", policy, _RESTART_POLICIES)
        if creating:
            if pods.get("topologySpreadConstraints"):
                rule = "must not be set: use topologyConstraint, which gangs are placed by"
                yield forbidden(f"{path}.topologySpreadConstraints", rule)
            if pods.get("nodeName"):
                rule = "must not be set: the scheduler finds nodes for the whole gang"
                yield forbidden(f"{path}.nodeName", rule)
        if dependencies(template, clique.name):
            yield from _taken_names(path, pods)
        for kind in _CONTAINERS:
            for place, container in enumerate(_objects(pods, kind)):
                yield from _variable_problems(f"{path}.{kind}[{place}].env", container)


def _taken_names(path: str, pods: JsonObject) -> Iterator[Problem]:
    """Names of what the operator adds to pods that wait for others."""
    taken = dict.fromkeys(_CONTAINERS, names.STARTUP_CONTAINER)
    for kind, name in {**taken, "volumes": names.POD_INFO_VOLUME}.items():
        for place, each in enumerate(_objects(pods, kind)):
            if each.get("name") == name:
                rule = "is added by the operator where cliques start after others: rename it"
                yield invalid_value(f"{path}.{kind}[{place}].name", name, rule)


def _variable_problems(path: str, container: JsonObject) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, variable in enumerate(_objects(container, "env")):
        name = str(variable.get("name", ""))
        if trouble := variable_name(name):
            yield invalid_value(f"{path}[{index}].name", name, trouble)
        elif name in seen:
            yield duplicate(f"{path}[{index}].name", name)
        seen.add(name)


def _objects(obj: JsonObject, name: str) -> list[JsonObject]:
    listed: list[Any] = obj.get(name) or []
    return [cast(JsonObject, each) for each in listed if isinstance(each, dict)]
