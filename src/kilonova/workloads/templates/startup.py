"""Who starts after whom, and how a pod waits for it."""

from typing import Any

from kilonova.api.grove import names
from kilonova.api.grove.podcliqueset import ANY_ORDER, IN_ORDER, Template
from kilonova.api.json import JsonObject
from kilonova.workloads.settings import Settings
from kilonova.workloads.templates.lookup import Member, find_clique, group_of

_WAIT = f"until [ -s {names.POD_INFO_PATH}/{names.RELEASED_FILE} ]; do sleep 0.2; done"


def starts_after(
    template: Template, set_name: str, index: int, clique: str, member: Member | None
) -> tuple[str, ...]:
    """Full names of the PodCliques that must have started before this one.

    In the base gang, a clique of a scaling group stands for itself in all replicas that there must
    be. In a scaled gang only what is in the same replica counts; what is not stands for what it
    starts after itself, so that the order within the replica is kept.
    """
    if member is not None and member.is_scaled:
        return tuple(
            names.member_clique(member.group_name, member.index, each)
            for each in _within(template, clique, member.group.clique_names)
        )
    result: list[str] = []
    for each in dependencies(template, clique):
        group = group_of(template, each)
        if group is None:
            result.append(names.clique(set_name, index, each))
            continue
        group_name = names.scaling_group(set_name, index, group.name)
        result += [
            names.member_clique(group_name, group_index, each)
            for group_index in range(min(group.min_available, group.replicas))
        ]
    return tuple(result)


def dependencies(template: Template, clique: str) -> tuple[str, ...]:
    """The cliques before a clique, as the set names them."""
    if template.clique_startup_type == ANY_ORDER:
        return ()
    if template.clique_startup_type == IN_ORDER:
        order = [each.name for each in template.cliques]
        place = order.index(clique)
        return tuple(order[max(place - 1, 0) : place])
    return find_clique(template, clique).spec.starts_after


def _within(template: Template, clique: str, known: tuple[str, ...]) -> list[str]:
    """The nearest cliques before a clique that are among the known ones."""
    result: dict[str, None] = {}
    seen: set[str] = set()
    ahead = list(reversed(dependencies(template, clique)))
    while ahead:
        each = ahead.pop()
        if each in seen:
            continue
        seen.add(each)
        if each in known:
            result[each] = None
        else:
            ahead += reversed(dependencies(template, each))
    return list(result)


def waiting(pod_spec: JsonObject, settings: Settings) -> JsonObject:
    """The pod with an init container that ends when the pod is released.

    The operator releases a pod by an annotation, which the container sees as a file: it needs
    neither the API nor a token.
    """
    return {
        **pod_spec,
        "initContainers": [
            *(pod_spec.get("initContainers") or ()),
            _waiting_container(pod_spec, settings),
        ],
        "volumes": [*(pod_spec.get("volumes") or ()), _POD_INFO],
    }


_POD_INFO: JsonObject = {
    "name": names.POD_INFO_VOLUME,
    "downwardAPI": {
        "items": [
            {
                "path": names.RELEASED_FILE,
                "fieldRef": {"fieldPath": f"metadata.annotations['{names.RELEASED}']"},
            }
        ]
    },
}

_IDENTITY = ("runAsUser", "runAsGroup", "runAsNonRoot")


def _waiting_container(pod_spec: JsonObject, settings: Settings) -> JsonObject:
    # As much as the first container, and as the same user: the pod then needs no more than
    # without it, keeps its quality of service, and breaks no rule that it did not break.
    first: JsonObject = pod_spec["containers"][0]
    identity: JsonObject = first.get("securityContext") or {}
    resources = _cpu_and_memory(first.get("resources") or {})
    return {
        "name": names.STARTUP_CONTAINER,
        "image": settings.startup_image,
        "command": ["sh", "-c", _WAIT],
        **({"resources": resources} if resources else {}),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            **{key: identity[key] for key in _IDENTITY if key in identity},
        },
        "volumeMounts": [
            {"name": names.POD_INFO_VOLUME, "mountPath": names.POD_INFO_PATH, "readOnly": True}
        ],
    }


def _cpu_and_memory(resources: JsonObject) -> JsonObject:
    result: JsonObject = {}
    for side in ("requests", "limits"):
        amounts: dict[str, Any] = resources.get(side) or {}
        kept = {key: amounts[key] for key in ("cpu", "memory") if key in amounts}
        if kept:
            result[side] = kept
    return result
