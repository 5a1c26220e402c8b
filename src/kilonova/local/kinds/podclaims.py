"""Rules for the claims of devices that a pod names, and its containers use."""

from collections.abc import Iterator

from kilonova.api.json import JsonObject
from kilonova.local.errors import Problem, duplicate, invalid_value, required
from kilonova.local.kinds.walk import objects
from kilonova.local.names import dns_label, dns_subdomain

_EITHER = ("resourceClaimName", "resourceClaimTemplateName")
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


def pod_claim_problems(spec: JsonObject, path: str) -> Iterator[Problem]:
    """`resourceClaims` of a pod, and `resources.claims` of its containers."""
    claims = objects(spec, "resourceClaims")
    names: set[str] = set()
    for index, claim in enumerate(claims):
        yield from _claim(claim, f"{path}.resourceClaims[{index}]", names)
    for field in _CONTAINERS:
        for index, container in enumerate(objects(spec, field)):
            used = objects(container, "resources", "claims")
            yield from _used(used, names, f"{path}.{field}[{index}].resources.claims")


def _claim(claim: JsonObject, path: str, names: set[str]) -> Iterator[Problem]:
    """One claim; adds its name to those that are known."""
    name = claim.get("name", "")
    if not name:
        yield required(f"{path}.name")
    elif name in names:
        yield duplicate(f"{path}.name", name)
    elif trouble := dns_label(name):
        yield invalid_value(f"{path}.name", name, trouble)
    if name:
        names.add(name)
    given = [field for field in _EITHER if claim.get(field) is not None]
    if len(given) != 1:
        detail = (
            "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            if given
            else "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        )
        yield invalid_value(path, _as_go_shows(claim), detail)
    for field in given:
        if trouble := dns_subdomain(claim[field]):
            yield invalid_value(f"{path}.{field}", claim[field], trouble)


def _as_go_shows(claim: JsonObject) -> JsonObject:
    return {
        "Name": claim.get("name", ""),
        "ResourceClaimName": claim.get("resourceClaimName"),
        "ResourceClaimTemplateName": claim.get("resourceClaimTemplateName"),
    }


def _used(claims: list[JsonObject], names: set[str], path: str) -> Iterator[Problem]:
    """Each claim, or each request of it, is used once, and is one of the pod's."""
    used: set[tuple[str, str]] = set()
    for index, claim in enumerate(claims):
        here, name, request = f"{path}[{index}]", claim.get("name", ""), claim.get("request", "")
        if not name:
            yield required(here)
            continue
        if (name, "") in used:
            yield duplicate(here, name)
        else:
            if request and (trouble := dns_label(request)):
                yield invalid_value(f"{here}.request", request, trouble)
            if (name, request) in used:
                yield duplicate(here, f"{name}/{request}")
            elif not request:
                yield from (duplicate(here, name) for other, _ in used if other == name)
            used.add((name, request))
        if name not in names:
            there = f": {', '.join(sorted(names))}" if names else " which is empty"
            detail = f"must be one of the names in pod.spec.resourceClaims{there}"
            yield Problem(here, "FieldValueNotFound", f'Not found: "{name}": {detail}')
