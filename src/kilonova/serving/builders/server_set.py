"""The PodCliqueSet of a group of servers, each of its replicas a server; in the namespaced mode a
Deployment. Pure."""

from typing import Any, cast

import msgspec

from kilonova.api.grove.podcliqueset import Template
from kilonova.api.json import JsonObject
from kilonova.api.scheduling_names import QUEUE
from kilonova.api.serving import Gateway, ServerGroup, names
from kilonova.serving.builders.identity import Identity
from kilonova.serving.builders.server_pods import build_server_pod, complete_pod
from kilonova.serving.settings import ServingSettings

CLIQUE = names.SERVER_CONTAINER
"""The clique of a server that is one pod."""


def get_initial_replicas(group: ServerGroup) -> int:
    """The number of servers to start with."""
    replicas = 1 if group.replicas is None else group.replicas
    bounds = group.autoscaling
    if bounds is None:
        return replicas
    return min(max(replicas, bounds.min_replicas), bounds.max_replicas)


def build_server_set(
    identity: Identity,
    group: ServerGroup,
    gateway: Gateway,
    replicas: int,
    settings: ServingSettings,
) -> JsonObject:
    """The PodCliqueSet of a group."""
    labels = _build_labels(identity, group)
    queue = _build_queue(group)
    name = names.build_server_set(identity.name, group.name)
    return {
        "metadata": identity.build_metadata(name, {names.SERVER: group.name, **queue}),
        "spec": {
            "replicas": replicas,
            "template": _build_template(group, gateway, {**labels, **queue}, settings, name),
        },
    }


def build_server_deployment(
    identity: Identity,
    group: ServerGroup,
    gateway: Gateway,
    replicas: int,
    settings: ServingSettings,
) -> JsonObject:
    """The Deployment of a group, where there are no PodCliqueSets."""
    own = {**_build_labels(identity, group), names.ENTRY: "true"}
    metadata = _build_pod_metadata(group, {**own, **_build_queue(group)}, identity)
    name = names.build_server_set(identity.name, group.name)
    return {
        "metadata": identity.build_metadata(name, {names.SERVER: group.name}),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": own},
            "template": {
                "metadata": metadata,
                "spec": build_server_pod(group, gateway, settings, name),
            },
        },
    }


def _build_labels(identity: Identity, group: ServerGroup) -> dict[str, str]:
    return identity.build_pod_labels("server", group.name)


def _build_queue(group: ServerGroup) -> dict[str, str]:
    return {QUEUE: group.queue} if group.queue else {}


def _build_pod_metadata(
    group: ServerGroup, labels: dict[str, str], identity: Identity
) -> JsonObject:
    given = None if group.template is None else group.template.metadata
    return {
        "labels": {**(given.labels if given else {}), **identity.workload_labels, **labels},
        "annotations": {
            **(given.annotations if given else {}),
            **identity.workload_annotations,
        },
    }


def _build_template(
    group: ServerGroup,
    gateway: Gateway,
    labels: dict[str, str],
    settings: ServingSettings,
    name: str,
) -> JsonObject:
    if group.pod_clique_set_template is not None:
        return _complete_template(group, group.pod_clique_set_template, labels, settings)
    given = None if group.template is None else group.template.metadata
    clique: JsonObject = {
        "name": CLIQUE,
        "labels": {**(given.labels if given else {}), **labels, names.ENTRY: "true"},
        "annotations": dict(given.annotations) if given else {},
        "spec": {
            "roleName": CLIQUE,
            "replicas": 1,
            "podSpec": build_server_pod(group, gateway, settings, name),
        },
    }
    template: JsonObject = {"cliques": [clique]}
    if group.priority_class_name:
        template["priorityClassName"] = group.priority_class_name
    return template


def _complete_template(
    group: ServerGroup, given: Template, labels: dict[str, str], settings: ServingSettings
) -> JsonObject:
    """The user's template, whose pods have our labels, scheduler and drain."""
    template: JsonObject = _encode_set_fields(given)
    cliques: list[JsonObject] = template["cliques"]
    template["cliques"] = [
        {
            **each,
            "labels": {
                **each.get("labels", {}),
                **labels,
                **({names.ENTRY: "true"} if each["name"] == group.entry_clique else {}),
            },
            "spec": {
                **each["spec"],
                "podSpec": complete_pod(group, each["spec"]["podSpec"], settings),
            },
        }
        for each in cliques
    ]
    if group.priority_class_name:
        template.setdefault("priorityClassName", group.priority_class_name)
    return template


def _encode_set_fields(value: Any) -> Any:
    """The JSON of a Struct without the fields that have their default; what is no Struct is kept as
    it is, such as the spec of a pod."""
    if isinstance(value, msgspec.Struct):
        return {
            field.encode_name: _encode_set_fields(getattr(value, field.name))
            for field in msgspec.structs.fields(value)
            if getattr(value, field.name) != field.default
        }
    if isinstance(value, tuple):
        return [_encode_set_fields(each) for each in cast("tuple[Any, ...]", value)]
    return value
