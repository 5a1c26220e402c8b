"""The pods of a server: the runtime, the fields of its group, and its template. Pure."""

from collections.abc import Mapping, Sequence
from typing import cast

from kilonova.api.json import JsonObject
from kilonova.api.nodes.kinds import NODE_KIND_LABEL, PROCESS_NODE
from kilonova.api.serving import Gateway, ServerGroup, names
from kilonova.serving.builders.lifecycle import (
    build_pre_stop,
    get_server_delay,
    get_server_grace,
)
from kilonova.serving.builders.runtimes import build_runtime_container
from kilonova.serving.repositories import RepositoryVolumes, build_repository_volumes
from kilonova.serving.settings import ServingSettings


def build_server_pod(
    group: ServerGroup, gateway: Gateway, settings: ServingSettings, service: str
) -> JsonObject:
    """The spec of the pod of a server that is one pod. `service` is its name in traces."""
    given: JsonObject = {} if group.template is None else group.template.spec
    volumes = build_repository_volumes(group.model_repository, settings.model_server_image)
    first, *others = _list_containers(given) or [cast("JsonObject", {})]
    runtime = build_runtime_container(group, gateway, settings, service)
    container = _build_container(group, runtime, first)
    spec = complete_pod(group, {**given, "containers": [container, *others]}, settings)
    if group.priority_class_name:
        spec.setdefault("priorityClassName", group.priority_class_name)
    return _with_repository(spec, volumes)


def complete_pod(group: ServerGroup, spec: JsonObject, settings: ServingSettings) -> JsonObject:
    """The spec of a pod of a server, with what it has from us unless it specifies otherwise:
    scheduler, drain, and on this machine a node that really runs it."""
    first, *others = _list_containers(spec)
    completed: JsonObject = {
        "schedulerName": settings.scheduler_name,
        "terminationGracePeriodSeconds": get_server_grace(group),
        **spec,
        "containers": [{**build_pre_stop(get_server_delay(group)), **first}, *others],
    }
    if settings.on_this_machine and not _selects_nodes(completed):
        completed["nodeSelector"] = {NODE_KIND_LABEL: PROCESS_NODE}
    return completed


def _build_container(group: ServerGroup, runtime: JsonObject, given: JsonObject) -> JsonObject:
    container: JsonObject = {"name": names.SERVER_CONTAINER, **runtime, **given}
    env = _merge_named(
        _merge_named(runtime.get("env") or (), given.get("env") or ()), group.env or ()
    )
    if env:
        container["env"] = env
    if group.image:
        container["image"] = group.image
    if group.command:
        container["command"] = list(group.command)
        container.pop("args", None)
        container["args"] = list(group.args)
    elif group.args:
        # After those of the runtime, so that they count.
        container["args"] = [*container.get("args", ()), *group.args]
    if group.resources is not None:
        container["resources"] = group.resources
    return container


def _with_repository(spec: JsonObject, repository: RepositoryVolumes) -> JsonObject:
    """The spec of a pod that sees a model repository in all of its containers."""
    if not repository.volumes:
        return spec
    containers = [
        {
            **each,
            "volumeMounts": [*(each.get("volumeMounts") or ()), *repository.volume_mounts],
        }
        for each in _list_containers(spec)
    ]
    result = {
        **spec,
        "containers": containers,
        "volumes": [*(spec.get("volumes") or ()), *repository.volumes],
    }
    if repository.init_containers:
        own = spec.get("initContainers") or ()
        result["initContainers"] = [*repository.init_containers, *own]
    return result


def _selects_nodes(spec: JsonObject) -> bool:
    affinity = cast("JsonObject", spec.get("affinity") or {})
    return bool(spec.get("nodeSelector") or spec.get("nodeName") or affinity.get("nodeAffinity"))


def _list_containers(spec: JsonObject) -> list[JsonObject]:
    return list(cast("Sequence[JsonObject]", spec.get("containers") or ()))


def _merge_named(
    first: Sequence[Mapping[str, object]], then: Sequence[Mapping[str, object]]
) -> list[Mapping[str, object]]:
    """Two lists of variables; the second takes precedence."""
    named = {each.get("name") for each in then}
    return [*(each for each in first if each.get("name") not in named), *then]
