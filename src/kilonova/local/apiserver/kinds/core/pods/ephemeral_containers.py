"""Validation of ephemeral containers (`kubectl debug`)."""

from collections.abc import Iterator

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import FieldError, forbidden_value, not_found_value
from kilonova.local.apimachinery.unstructured import nested_objects

_FORBIDDEN_FIELDS = (
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
_FORBIDDEN_MESSAGE = "cannot be set for an Ephemeral Container"


def validate_ephemeral_containers(spec: JsonObject, path: str) -> Iterator[FieldError]:
    """Fields that ephemeral containers must not have, beside the rules for any container."""
    others = {
        container.get("name")
        for field in ("containers", "initContainers")
        for container in nested_objects(spec, field)
    }
    for index, container in enumerate(nested_objects(spec, "ephemeralContainers")):
        item_path = f"{path}[{index}]"
        target = container.get("targetContainerName")
        if target and target not in others:
            yield not_found_value(f"{item_path}.targetContainerName", target)
        for field in _FORBIDDEN_FIELDS:
            if container.get(field):
                yield forbidden_value(f"{item_path}.{field}", _FORBIDDEN_MESSAGE)
        for position, mount in enumerate(nested_objects(container, "volumeMounts")):
            for field in ("subPath", "subPathExpr"):
                if mount.get(field):
                    yield forbidden_value(
                        f"{item_path}.volumeMounts[{position}].{field}", _FORBIDDEN_MESSAGE
                    )


def validate_ephemeral_containers_update(new: JsonObject, old: JsonObject) -> Iterator[FieldError]:
    """Existing ephemeral containers are immutable; new ones may be added."""
    updated = {
        each.get("name"): each for each in nested_objects(new, "spec", "ephemeralContainers")
    }
    for container in nested_objects(old, "spec", "ephemeralContainers"):
        name = container.get("name")
        if name not in updated:
            detail = f'existing ephemeral containers "{name}" may not be removed\n'
            yield forbidden_value("spec.ephemeralContainers", detail)
        elif updated[name] != container:
            detail = f'existing ephemeral containers "{name}" may not be changed\n'
            yield forbidden_value("spec.ephemeralContainers", detail)
