"""AdmissionReview of admission.k8s.io/v1: decodes the request, encodes the response. Pure."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, assert_never

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube.admission.json_patch import create_json_patch

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"


class InvalidReview(ValueError):
    """The request body is not an AdmissionReview; the message states why."""


class GroupVersionKind(msgspec.Struct, frozen=True):
    group: str = ""
    version: str = ""
    kind: str = ""


class GroupVersionResource(msgspec.Struct, frozen=True):
    group: str = ""
    version: str = ""
    resource: str = ""


class UserInfo(msgspec.Struct, frozen=True):
    """The user who sent the API request."""

    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class AdmissionRequest(msgspec.Struct, rename="camel"):
    """An operation on an object, before it is stored.

    `object` is absent on DELETE, `old_object` on CREATE. A handler may change `object` in place and
    return `Mutated(request.object)`. With `dry_run` a handler must have no side effects.
    """

    uid: str
    operation: Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
    kind: GroupVersionKind = msgspec.field(default_factory=GroupVersionKind)
    resource: GroupVersionResource = msgspec.field(default_factory=GroupVersionResource)
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    user_info: UserInfo = msgspec.field(default_factory=UserInfo)
    object: JsonObject | None = None
    old_object: JsonObject | None = None
    dry_run: bool | None = None
    options: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class Allowed:
    """Admit the request. kubectl shows `warnings`; `audit_annotations` go to the audit log."""

    warnings: tuple[str, ...] = ()
    audit_annotations: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Mutated:
    """Admit the request with `object` instead; the patch is the difference from the original."""

    object: JsonObject
    warnings: tuple[str, ...] = ()
    audit_annotations: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class FieldError:
    """An invalid field, named as `spec.containers[0].image`, and what is wrong with it."""

    field: str
    message: str


@dataclass(frozen=True, slots=True)
class Denied:
    """Reject the request. The API server answers the client with this code and message."""

    message: str
    code: int = 403
    reason: str = "Forbidden"
    field_errors: tuple[FieldError, ...] = ()
    warnings: tuple[str, ...] = ()
    audit_annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    kind: str = ""
    name: str = ""
    """Kind and name of the rejected object, which kubectl shows."""


AdmissionResponse: TypeAlias = Allowed | Mutated | Denied


def deny_invalid(
    *problems: FieldError, warnings: tuple[str, ...] = (), request: AdmissionRequest | None = None
) -> Denied:
    """Reject a request because of invalid fields; the message names each of them.

    kubectl shows the name of the reviewed object beside it.
    """
    message = "; ".join(f"{problem.field}: {problem.message}" for problem in problems)
    kind, name = ("", "") if request is None else (request.kind.kind, request.name)
    return Denied(message, 422, "Invalid", problems, warnings, kind=kind, name=name)


def decode_review(body: bytes) -> AdmissionRequest:
    """Decode the request in a body; raises `InvalidReview` if there is none."""
    try:
        envelope = _review_decoder.decode(body)
    except msgspec.ValidationError as error:
        raise InvalidReview(f"the body is not an {KIND}: {error}") from None
    except msgspec.DecodeError as error:
        raise InvalidReview(f"the body is not JSON: {error}") from None
    if (envelope.kind, envelope.api_version) != (KIND, API_VERSION):
        got = f"{envelope.kind or 'no kind'} of {envelope.api_version or 'no apiVersion'}"
        raise InvalidReview(f"expected {KIND} of {API_VERSION}, got {got}")
    if bytes(envelope.request) == b"null":
        raise InvalidReview("request is missing")
    try:
        review = _request_decoder.decode(envelope.request)
    except msgspec.ValidationError as error:
        raise InvalidReview(f"request: {error}") from None
    if not review.uid:
        raise InvalidReview("request.uid is missing")
    return review


def encode_response(uid: str, body: bytes, decision: AdmissionResponse) -> bytes:
    """Encode the AdmissionReview that answers the one in `body`."""
    response: JsonObject = {"uid": uid, "allowed": not isinstance(decision, Denied)}
    match decision:
        case Allowed():
            pass
        case Mutated():
            # Decoded again: the handler may have changed the object it received.
            original = decode_review(body).object or {}
            if patch := create_json_patch(original, decision.object):
                response["patchType"] = "JSONPatch"
                response["patch"] = base64.b64encode(msgspec.json.encode(patch)).decode()
        case Denied():
            response["status"] = _failure_status(decision)
        case _:
            assert_never(decision)
    if decision.warnings:
        response["warnings"] = decision.warnings
    if decision.audit_annotations:
        response["auditAnnotations"] = decision.audit_annotations
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def _failure_status(denied: Denied) -> JsonObject:
    status: JsonObject = {
        "status": "Failure",
        "message": denied.message,
        "reason": denied.reason,
        "code": denied.code,
    }
    details: JsonObject = {
        "name": denied.name,
        "kind": denied.kind,
        "causes": [
            {"reason": "FieldValueInvalid", "message": problem.message, "field": problem.field}
            for problem in denied.field_errors
        ],
    }
    if present_details := {key: value for key, value in details.items() if value}:
        status["details"] = present_details
    return status


class _AdmissionReview(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    request: msgspec.Raw = msgspec.Raw(b"null")


_review_decoder = msgspec.json.Decoder(_AdmissionReview)
_request_decoder = msgspec.json.Decoder(AdmissionRequest)
