"""Containers that somebody adds to a pod that runs, to look into it (`kubectl debug`)."""

from collections.abc import Iterator

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, forbidden_field, not_found_value
from kilonova.local.kinds.walk import objects

_NOT_FOR_THEM = (
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
)
_REFUSED = "cannot be set for an Ephemeral Container"


def ephemeral_problems(spec: JsonObject, path: str) -> Iterator[Problem]:
    """What no such container may have, beside the rules for any container."""
    others = {
        container.get("name")
        for field in ("containers", "initContainers")
        for container in objects(spec, field)
    }
    for index, container in enumerate(objects(spec, "ephemeralContainers")):
        here = f"{path}[{index}]"
        target = container.get("targetContainerName")
        if target and target not in others:
            yield not_found_value(f"{here}.targetContainerName", target)
        for field in _NOT_FOR_THEM:
            if container.get(field):
                yield forbidden_field(f"{here}.{field}", _REFUSED)
        for place, mount in enumerate(objects(container, "volumeMounts")):
            for field in ("subPath", "subPathExpr"):
                if mount.get(field):
                    yield forbidden_field(f"{here}.volumeMounts[{place}].{field}", _REFUSED)


def ephemeral_change_problems(new: JsonObject, old: JsonObject) -> Iterator[Problem]:
    """Those that are there stay as they are; more may come."""
    wanted = {each.get("name"): each for each in objects(new, "spec", "ephemeralContainers")}
    for container in objects(old, "spec", "ephemeralContainers"):
        name = container.get("name")
        if name not in wanted:
            detail = f'existing ephemeral containers "{name}" may not be removed\n'
            yield forbidden_field("spec.ephemeralContainers", detail)
        elif wanted[name] != container:
            detail = f'existing ephemeral containers "{name}" may not be changed\n'
            yield forbidden_field("spec.ephemeralContainers", detail)
