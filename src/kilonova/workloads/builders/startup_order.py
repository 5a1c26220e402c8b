"""Startup dependencies of cliques, and the init container that waits for them."""

from typing import Any

from kilonova.api.grove import names
from kilonova.api.grove.podcliqueset import ANY_ORDER, IN_ORDER, Template
from kilonova.api.json import JsonObject
from kilonova.workloads.builders.template_lookup import (
    GroupMember,
    find_group_of_clique,
    get_clique_template,
)
from kilonova.workloads.settings import OperatorSettings

_WAIT_SCRIPT = f"until [ -s {names.POD_INFO_PATH}/{names.RELEASED_FILE} ]; do sleep 0.2; done"


def resolve_starts_after(
    template: Template, set_name: str, index: int, clique: str, member: GroupMember | None
) -> tuple[str, ...]:
    """Full names of the PodCliques that must have started before this one.

    In the base gang, a dependency on a clique of a scaling group means that clique in the first
    minAvailable group replicas. In a scaled gang only cliques of the same group replica count; a
    dependency outside of it is replaced by its own dependencies, so that the order within the group
    replica is preserved.
    """
    if member is not None and member.is_scaled:
        return tuple(
            names.member_clique(member.group_name, member.index, each)
            for each in _find_dependencies_within(template, clique, member.group.clique_names)
        )
    result: list[str] = []
    for each in list_dependencies(template, clique):
        group = find_group_of_clique(template, each)
        if group is None:
            result.append(names.clique(set_name, index, each))
            continue
        group_name = names.scaling_group(set_name, index, group.name)
        result += [
            names.member_clique(group_name, group_index, each)
            for group_index in range(min(group.min_available, group.replicas))
        ]
    return tuple(result)


def list_dependencies(template: Template, clique: str) -> tuple[str, ...]:
    """The cliques that a clique starts after, by their names in the set."""
    if template.clique_startup_type == ANY_ORDER:
        return ()
    if template.clique_startup_type == IN_ORDER:
        order = [each.name for each in template.cliques]
        position = order.index(clique)
        return tuple(order[max(position - 1, 0) : position])
    return get_clique_template(template, clique).spec.starts_after


def _find_dependencies_within(template: Template, clique: str, known: tuple[str, ...]) -> list[str]:
    """The nearest dependencies of a clique that are among the known ones."""
    result: dict[str, None] = {}
    seen: set[str] = set()
    pending = list(reversed(list_dependencies(template, clique)))
    while pending:
        each = pending.pop()
        if each in seen:
            continue
        seen.add(each)
        if each in known:
            result[each] = None
        else:
            pending += reversed(list_dependencies(template, each))
    return list(result)


def with_startup_container(pod_spec: JsonObject, settings: OperatorSettings) -> JsonObject:
    """The pod spec with an init container that ends when the pod is released.

    The operator releases a pod by an annotation, which the container reads as a file through the
    downward API: it needs neither the API nor a token.
    """
    return {
        **pod_spec,
        "initContainers": [
            *(pod_spec.get("initContainers") or ()),
            _build_startup_container(pod_spec, settings),
        ],
        "volumes": [*(pod_spec.get("volumes") or ()), _POD_INFO_VOLUME],
    }


_POD_INFO_VOLUME: JsonObject = {
    "name": names.POD_INFO_VOLUME,
    "downwardAPI": {
        "items": [
            {
                "path": names.RELEASED_FILE,
                "fieldRef": {"fieldPath": f"metadata.annotations['{names.STARTUP_RELEASED}']"},
            }
        ]
    },
}

_IDENTITY_FIELDS = ("runAsUser", "runAsGroup", "runAsNonRoot")


def _build_startup_container(pod_spec: JsonObject, settings: OperatorSettings) -> JsonObject:
    # Same requests and user as the first container: the pod's effective requests and QoS class
    # stay the same, and it violates no policy that it did not violate before.
    first: JsonObject = pod_spec["containers"][0]
    identity: JsonObject = first.get("securityContext") or {}
    resources = _select_cpu_and_memory(first.get("resources") or {})
    return {
        "name": names.STARTUP_CONTAINER,
        "image": settings.startup_image,
        "command": ["sh", "-c", _WAIT_SCRIPT],
        **({"resources": resources} if resources else {}),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            **{key: identity[key] for key in _IDENTITY_FIELDS if key in identity},
        },
        "volumeMounts": [
            {"name": names.POD_INFO_VOLUME, "mountPath": names.POD_INFO_PATH, "readOnly": True}
        ],
    }


def _select_cpu_and_memory(resources: JsonObject) -> JsonObject:
    result: JsonObject = {}
    for side in ("requests", "limits"):
        amounts: dict[str, Any] = resources.get(side) or {}
        selected = {key: amounts[key] for key in ("cpu", "memory") if key in amounts}
        if selected:
            result[side] = selected
    return result
