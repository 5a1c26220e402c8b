"""AdmissionReview of admission.k8s.io/v1: the question in, the answer out. Pure."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, assert_never

import msgspec

from kilonova.api.json import JsonObject
from kilonova.kube.admission.jsonpatch import json_patch_between

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"


class NotAReview(ValueError):
    """A request body that is no AdmissionReview; the message says why."""


class Kind(msgspec.Struct, frozen=True):
    group: str = ""
    version: str = ""
    kind: str = ""


class ResourceName(msgspec.Struct, frozen=True):
    group: str = ""
    version: str = ""
    resource: str = ""


class User(msgspec.Struct, frozen=True):
    """Who asks."""

    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class Review(msgspec.Struct, rename="camel"):
    """What somebody is about to do to an object.

    `object` is absent on DELETE, `old_object` on CREATE. A handler may change `object` in
    place and return `Mutated(review.object)`. With `dry_run` nothing else may be changed.
    """

    uid: str
    operation: Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
    kind: Kind = msgspec.field(default_factory=Kind)
    resource: ResourceName = msgspec.field(default_factory=ResourceName)
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    user_info: User = msgspec.field(default_factory=User)
    object: JsonObject | None = None
    old_object: JsonObject | None = None
    dry_run: bool | None = None
    options: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class Allowed:
    """Let it pass. Warnings are shown to the user by kubectl, `audit` goes to the audit log."""

    warnings: tuple[str, ...] = ()
    audit: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Mutated:
    """Let it pass as `object`; the patch is the difference from what came in."""

    object: JsonObject
    warnings: tuple[str, ...] = ()
    audit: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with one field, named as `spec.containers[0].image`."""

    field: str
    message: str


@dataclass(frozen=True, slots=True)
class Denied:
    """Refuse. The API server answers the user with this code and message."""

    message: str
    code: int = 403
    reason: str = "Forbidden"
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    audit: Mapping[str, str] = field(default_factory=dict[str, str])
    kind: str = ""
    name: str = ""
    """What is refused, for kubectl to say which of several objects it was."""


Answer: TypeAlias = Allowed | Mutated | Denied


def invalid(
    *problems: Problem, warnings: tuple[str, ...] = (), review: Review | None = None
) -> Denied:
    """Refuse because of fields; the message names each of them, and kubectl the object reviewed."""
    message = "; ".join(f"{problem.field}: {problem.message}" for problem in problems)
    kind, name = ("", "") if review is None else (review.kind.kind, review.name)
    return Denied(message, 422, "Invalid", problems, warnings, kind=kind, name=name)


def decode_review(body: bytes) -> Review:
    """The question in a request body; NotAReview if there is none."""
    try:
        envelope = _envelope.decode(body)
    except msgspec.ValidationError as error:
        raise NotAReview(f"the body is not an {KIND}: {error}") from None
    except msgspec.DecodeError as error:
        raise NotAReview(f"the body is not JSON: {error}") from None
    if (envelope.kind, envelope.api_version) != (KIND, API_VERSION):
        got = f"{envelope.kind or 'no kind'} of {envelope.api_version or 'no apiVersion'}"
        raise NotAReview(f"expected {KIND} of {API_VERSION}, got {got}")
    if bytes(envelope.request) == b"null":
        raise NotAReview("request is missing")
    try:
        review = _review.decode(envelope.request)
    except msgspec.ValidationError as error:
        raise NotAReview(f"request: {error}") from None
    if not review.uid:
        raise NotAReview("request.uid is missing")
    return review


def encode_answer(uid: str, body: bytes, answer: Answer) -> bytes:
    """The AdmissionReview that answers the one in `body`."""
    response: JsonObject = {"uid": uid, "allowed": not isinstance(answer, Denied)}
    match answer:
        case Allowed():
            pass
        case Mutated():
            # Decoded afresh: the handler may have changed the object that it was given.
            original = decode_review(body).object or {}
            if patch := json_patch_between(original, answer.object):
                response["patchType"] = "JSONPatch"
                response["patch"] = base64.b64encode(msgspec.json.encode(patch)).decode()
        case Denied():
            response["status"] = _status(answer)
        case _:
            assert_never(answer)
    if answer.warnings:
        response["warnings"] = answer.warnings
    if answer.audit:
        response["auditAnnotations"] = answer.audit
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def _status(denied: Denied) -> JsonObject:
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
            for problem in denied.problems
        ],
    }
    if told := {key: value for key, value in details.items() if value}:
        status["details"] = told
    return status


class _Envelope(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    request: msgspec.Raw = msgspec.Raw(b"null")


_envelope = msgspec.json.Decoder(_Envelope)
_review = msgspec.json.Decoder(Review)
