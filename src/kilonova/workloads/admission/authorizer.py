"""Whether a user may change an object that the operator manages.

Off by default. Users change the PodCliqueSet; of its objects they may only delete pods and connect
to them. An annotation of the set disables the protection.
"""

from collections.abc import Mapping
from typing import cast

from kilonova.api.grove import names
from kilonova.api.json import JsonObject
from kilonova.kube import Key
from kilonova.kube.admission import AdmissionRequest, AdmissionResponse, Allowed, Denied

EXEMPT_SYSTEM_USERS = tuple(
    f"system:serviceaccount:kube-system:{name}"
    for name in ("generic-garbage-collector", "namespace-controller")
)
"""Controllers that only complete a deletion which was authorized before."""


def find_protecting_set(request: AdmissionRequest, exempt_users: frozenset[str]) -> Key | None:
    """The set whose annotations decide about a request; None if it is allowed anyway."""
    if request.operation == "CONNECT" or request.user_info.username in exempt_users:
        return None
    if request.operation == "DELETE" and (request.resource.group, request.resource.resource) == (
        "",
        "pods",
    ):
        return None
    # The stored labels decide, not the submitted ones: a request must not remove the protection.
    labels = _get_labels(request.object if request.old_object is None else request.old_object)
    if labels.get(names.MANAGED_BY) != names.OPERATOR or not labels.get(names.PART_OF):
        return None
    return request.namespace, labels[names.PART_OF]


def authorize_change(
    request: AdmissionRequest, set_key: Key, annotations: Mapping[str, str] | None
) -> AdmissionResponse:
    """The response, given the annotations of the set; None where the set does not exist."""
    if annotations is None or annotations.get(names.PROTECTION_DISABLED) == "true":
        return Allowed()
    resource = ".".join(filter(None, (request.resource.resource, request.resource.group)))
    return Denied(
        f'{resource} "{request.name}" is managed by the operator of PodCliqueSet "{set_key[1]}": '
        f'user "{request.user_info.username}" is not allowed to {request.operation} it. Change the '
        f'PodCliqueSet instead, or annotate it with {names.PROTECTION_DISABLED}="true"'
    )


def _get_labels(obj: JsonObject | None) -> Mapping[str, str]:
    metadata = cast(JsonObject, (obj or {}).get("metadata") or {})
    return metadata.get("labels") or {}
