"""Validation of the ResourceClaims that a pod references and its containers use."""

from collections.abc import Iterator

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.errors import (
    FieldError,
    duplicate_value,
    invalid_value,
    required_value,
)
from kilonova.local.apimachinery.names import dns_label_error, dns_subdomain_error
from kilonova.local.apimachinery.unstructured import nested_objects

_CLAIM_SOURCES = ("resourceClaimName", "resourceClaimTemplateName")
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


def validate_pod_claims(spec: JsonObject, path: str) -> Iterator[FieldError]:
    """`resourceClaims` of a pod, and `resources.claims` of its containers."""
    claims = nested_objects(spec, "resourceClaims")
    names: set[str] = set()
    for index, claim in enumerate(claims):
        yield from _validate_claim(claim, f"{path}.resourceClaims[{index}]", names)
    for field in _CONTAINERS:
        for index, container in enumerate(nested_objects(spec, field)):
            used = nested_objects(container, "resources", "claims")
            yield from _validate_claims_used(
                used, names, f"{path}.{field}[{index}].resources.claims"
            )


def _validate_claim(claim: JsonObject, path: str, names: set[str]) -> Iterator[FieldError]:
    """Validate one claim and add its name to `names`."""
    name = claim.get("name", "")
    if not name:
        yield required_value(f"{path}.name")
    elif name in names:
        yield duplicate_value(f"{path}.name", name)
    elif error := dns_label_error(name):
        yield invalid_value(f"{path}.name", name, error)
    if name:
        names.add(name)
    sources = [field for field in _CLAIM_SOURCES if claim.get(field) is not None]
    if len(sources) != 1:
        detail = (
            "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            if sources
            else "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        )
        yield invalid_value(path, _go_format(claim), detail)
    for field in sources:
        if error := dns_subdomain_error(claim[field]):
            yield invalid_value(f"{path}.{field}", claim[field], error)


def _go_format(claim: JsonObject) -> JsonObject:
    return {
        "Name": claim.get("name", ""),
        "ResourceClaimName": claim.get("resourceClaimName"),
        "ResourceClaimTemplateName": claim.get("resourceClaimTemplateName"),
    }


def _validate_claims_used(
    claims: list[JsonObject], names: set[str], path: str
) -> Iterator[FieldError]:
    """Each claim, or request of a claim, is used once and is declared by the pod."""
    used: set[tuple[str, str]] = set()
    for index, claim in enumerate(claims):
        item_path, name, request = (
            f"{path}[{index}]",
            claim.get("name", ""),
            claim.get("request", ""),
        )
        if not name:
            yield required_value(item_path)
            continue
        if (name, "") in used:
            yield duplicate_value(item_path, name)
        else:
            if request and (error := dns_label_error(request)):
                yield invalid_value(f"{item_path}.request", request, error)
            if (name, request) in used:
                yield duplicate_value(item_path, f"{name}/{request}")
            elif not request:
                yield from (duplicate_value(item_path, name) for other, _ in used if other == name)
            used.add((name, request))
        if name not in names:
            known = f": {', '.join(sorted(names))}" if names else " which is empty"
            detail = f"must be one of the names in pod.spec.resourceClaims{known}"
            yield FieldError(item_path, "FieldValueNotFound", f'Not found: "{name}": {detail}')
