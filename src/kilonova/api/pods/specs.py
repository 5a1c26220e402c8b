"""Changes to every container of a pod spec. Arguments are never modified, only copied as needed."""

from collections.abc import Callable, Sequence

from kilonova.api.json import JsonObject

_FIELDS = ("containers", "initContainers")


def map_containers(pod_spec: JsonObject, change: Callable[[JsonObject], JsonObject]) -> JsonObject:
    """The pod spec with all containers and init containers changed."""
    changed: JsonObject = {
        field: [change(each) for each in pod_spec[field]]
        for field in _FIELDS
        if pod_spec.get(field)
    }
    return {**pod_spec, **changed}


def list_containers(pod_spec: JsonObject) -> list[JsonObject]:
    """All containers and init containers."""
    return [each for field in _FIELDS for each in pod_spec.get(field) or ()]


def with_environment(pod_spec: JsonObject, variables: Sequence[JsonObject]) -> JsonObject:
    """The pod spec with variables before those of each container, replacing variables of the same
    name.
    """
    overridden = {each["name"] for each in variables}

    def change(container: JsonObject) -> JsonObject:
        own = [each for each in container.get("env") or () if each["name"] not in overridden]
        return {**container, "env": [*variables, *own]}

    return map_containers(pod_spec, change)


def with_claims(
    pod_spec: JsonObject,
    claims: Sequence[JsonObject],
    wanted: Callable[[JsonObject], bool] = lambda _: True,
) -> JsonObject:
    """The pod spec with resource claims, for the containers that want them."""
    if not claims:
        return pod_spec
    references: list[JsonObject] = [{"name": each["name"]} for each in claims]

    def change(container: JsonObject) -> JsonObject:
        if not wanted(container):
            return container
        resources: JsonObject = container.get("resources") or {}
        own = resources.get("claims") or ()
        return {**container, "resources": {**resources, "claims": [*own, *references]}}

    changed = map_containers(pod_spec, change)
    return {**changed, "resourceClaims": [*(pod_spec.get("resourceClaims") or ()), *claims]}
